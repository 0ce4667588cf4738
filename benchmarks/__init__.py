"""Keyturn beside its peers and beside a hand-written floor: `python -m benchmarks`.

A row (`rows.py`) names a workload and what Keyturn must reach in it. A workload (`workloads/`) is one file that
says what is done and times it. A subject (`subjects/`) is one file that says how one library does it. Every
figure comes from a fresh process (`one.py`), and every one counts the side effects before it is believed.
"""
