"""The laws that the log of a run is held to, by subject: functions of the `AuditedRun` and one event."""
