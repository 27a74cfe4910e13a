"""One machine's jobs: a record for each, written by its owner alone, the lock, and which jobs are alive."""

from fairlead.ledger.ledger import JobLedger
from fairlead.ledger.liveness import boot_id, is_alive, process_ref, seconds_since_boot
from fairlead.ledger.place import StateDirectory
from fairlead.ledger.spec import JobSpec
from fairlead.ledger.watch import LedgerWatch

__all__ = [
    "JobLedger",
    "JobSpec",
    "LedgerWatch",
    "StateDirectory",
    "boot_id",
    "is_alive",
    "process_ref",
    "seconds_since_boot",
]
