"""The ways round the gate that other deep agents leave open, shown on them as installed, beside Keyturn."""
