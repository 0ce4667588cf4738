"""What is measured. A workload is one file here with `measure(subject, **params)`, which returns its figures by name.

It builds a `Script`, hands it to the subject's driver, times only what the row names, and checks the counters.
"""
