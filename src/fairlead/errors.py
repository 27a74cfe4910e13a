"""Every error this program raises on purpose.

FairleadError              `hint` says what to do
├── UserError              the user must change something              exit 2
│   ├── AugmentationError  an augmentation must be changed before it can be made
│   ├── AnalysisError      a model file cannot be analysed
│   ├── CatalogError       a catalog file cannot be used
│   ├── CaptureError       a captured host cannot be written or read
│   ├── DeviceError        a device, its invite or its credential cannot be used
│   ├── EmulationError     hosts, links or quotas cannot be emulated here
│   ├── FleetError         a fleet file cannot be used
│   ├── JobError           a job over many inputs cannot be made or found
│   ├── LabError           a lab cannot be built, started or found
│   ├── KubeconfigError    a kubeconfig, or what it names, cannot be used
│   ├── ManifestError      a manifest, snapshot or decision cannot be used
│   ├── NewerFormatError   a newer version of fairlead wrote it
│   ├── PipelineError      a pipeline must be changed before it can run
│   ├── RecordingError     a recording cannot be written or replayed
│   ├── SessionError       a session of this machine cannot be made, found or changed
│   ├── SettingsError      an option or setting has no such value
│   └── TraceError         a trace of accesses cannot be used
├── MissingPartError       an optional part is not installed           exit 2
├── OutputError            the disk cannot store the output            exit 74
├── KubeletError           a kubelet cannot be reached or served       exit 1
├── AllocationRefusedError an allocation was refused                   exit 1
├── WardenError            the warden refused or cannot be reached     exit 1
├── AttributionError       the use by pod cannot be read               exit 1
├── LimiterError           a share cannot be enforced                  exit 1
├── PipelineFailedError    a running pipeline failed                   exit 1
├── NoPlanError            no node for each stage of a pipeline fits   exit 1
├── LedgerError            this machine's jobs cannot be read or kept  exit 1 (125 in `run`)
├── SplitBenchError        a split job cannot be measured              exit 1
├── StoreCopyError         a volume cannot be copied to another one    exit 1
├── TransferError          a file cannot be sent to a store or fetched exit 1
│   └── StoreUnavailableError  the store cannot be reached, or is busy exit 3
└── ClusterError           the cluster refused or failed a request     exit 1
    ├── ClusterUnavailableError  it cannot be reached, or fails        exit 3
    ├── AccessError        it rejects the credentials, or forbids it   exit 2
    ├── MissingApiError    it does not serve this API group or kind    exit 2
    ├── InvalidError       it does not accept this object or request   exit 2
    │   └── TooLargeError  the object exceeds a size limit
    ├── NotFoundError      the object does not exist
    ├── AlreadyExistsError an object of that name exists already
    ├── ConflictError      the object has changed since it was read
    ├── GoneError          this resource version is no longer kept: list again
    ├── TooNewError        this resource version is yet to come: list again
    └── TooManyRequestsError  it is too busy, also after retries       exit 3
"""


class FairleadError(Exception):
    """Say what is wrong and where; `hint` says what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UserError(FairleadError):
    """The user must change something."""

    exit_code = 2


class AugmentationError(UserError):
    """What an augmentation asks for must be changed before it can be made."""


class AnalysisError(UserError):
    """A model file is damaged, hostile, too large, or leaves a dimension open."""


class CatalogError(UserError):
    """A catalog file cannot be used."""


class CaptureError(UserError):
    """A captured host cannot be written or read."""


class DeviceError(UserError):
    """A device, its invite, its credential or the certificate of its store cannot be used."""


class EmulationError(UserError):
    """Hosts, the link between them or a CPU quota cannot be emulated on this machine."""


class JobError(UserError):
    """A job over many inputs cannot be made as it is asked for, or cannot be found."""


class KubeconfigError(UserError):
    """A kubeconfig, or what it names, cannot be used."""


class ManifestError(UserError):
    """A manifest, a snapshot or a decision, or something in it, cannot be used."""


class NewerFormatError(UserError):
    """A newer version of fairlead wrote this; reading it by guess could allocate a device twice."""

    def __init__(self, what: str, version: int, newest: int) -> None:
        super().__init__(
            f"{what} format {version}: this program reads formats up to {newest}",
            "upgrade fairlead here to the version that wrote it",
        )
        self.version = version


class PipelineError(UserError):
    """A pipeline, or a file or a function that it names, must be changed before it can run."""


class RecordingError(UserError):
    """A recording cannot be written or replayed."""


class FleetError(UserError):
    """A fleet file cannot be used."""


class LabError(UserError):
    """A lab, or a program of it, cannot be built, fetched, started or found."""


class SessionError(UserError):
    """A session of this machine cannot be made, found or changed."""


class SettingsError(UserError):
    """An option or setting has a value that it cannot have."""


class TraceError(UserError):
    """A trace of accesses to files cannot be used."""


class MissingPartError(FairleadError):
    """An optional part of the program is not installed; the command line adds how to install it."""

    exit_code = 2


class OutputError(FairleadError):
    """The disk is full or damaged; the partial file is removed. The code is sysexits.h's EX_IOERR."""

    exit_code = 74


class KubeletError(FairleadError):
    """A kubelet cannot be reached, or a socket for it cannot be opened."""


class AllocationRefusedError(FairleadError):
    """An allocation was refused; the message is the reason, which the pod's user sees."""


class WardenError(FairleadError):
    """The warden refused a request, or cannot be reached."""


class AttributionError(FairleadError):
    """The use of accelerators by pod cannot be read."""


class LimiterError(FairleadError):
    """The limiter of a node refused a request, or cannot be reached."""


class PipelineFailedError(FairleadError):
    """A running pipeline failed; the message names the stage and the frame."""


class NoPlanError(FairleadError):
    """No plan of a pipeline fits its nodes; the message is the reason."""


class LedgerError(FairleadError):
    """The jobs of this machine cannot be read or recorded; `fairlead run` ends with 125 instead."""


class SplitBenchError(FairleadError):
    """A split job cannot be measured."""


class StoreCopyError(FairleadError):
    """The volume of a store cannot be copied, or the copy is not the same."""


class TransferError(FairleadError):
    """A file cannot be sent to the store of a session, or fetched from it."""


class StoreUnavailableError(TransferError):
    """The store of a session cannot be reached, or takes no request now."""

    exit_code = 3


class ClusterError(FairleadError):
    """The cluster refused a request, or failed to execute it."""

    def __init__(self, message: str, hint: str = "", *, code: int = 0, reason: str = "") -> None:
        super().__init__(message, hint)
        self.code = code
        """The HTTP status; 0 without a response."""
        self.reason = reason
        """The reason in the API server's Status, such as `AlreadyExists`."""


class ClusterUnavailableError(ClusterError):
    """The cluster cannot be reached, or cannot serve requests."""

    exit_code = 3
    maybe_done = False
    """The request was sent, and the server may have executed it: read the object before undoing anything."""


class AccessError(ClusterError):
    """The cluster rejects the credentials, or forbids the request."""

    exit_code = 2


class MissingApiError(ClusterError):
    """The cluster does not serve this API group, version or kind."""

    exit_code = 2


class InvalidError(ClusterError):
    """The cluster does not accept this object or request."""

    exit_code = 2


class TooLargeError(InvalidError):
    """The object exceeds the cluster's size limit: nothing can be added to it."""


class NotFoundError(ClusterError):
    """The object does not exist."""


class AlreadyExistsError(ClusterError):
    """An object of that name exists already."""


class ConflictError(ClusterError):
    """The object has changed since it was read: read it again."""


class GoneError(ClusterError):
    """The server no longer keeps the resource version or page: list again."""


class TooNewError(ClusterError):
    """The server has not reached this resource version, or has lost it: list again."""


class TooManyRequestsError(ClusterError):
    """The cluster asks for a pause, and the retries are used up."""

    exit_code = 3
