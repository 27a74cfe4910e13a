"""Every error this program raises on purpose.

FairleadError              someone must act; `hint` says how
├── UserError              the user must change something            exit 2
│   ├── AnalysisError      a model file cannot be analysed
│   ├── CatalogError       a catalog file cannot be used
│   ├── CaptureError       a captured host cannot be written or read
│   ├── FleetError         a fleet file cannot be used
│   ├── LabError           a lab cannot be built, started or found
│   ├── KubeconfigError    a kubeconfig, or what it names, cannot be used
│   ├── ManifestError      a manifest, snapshot or decision cannot be used
│   ├── NewerFormatError   a newer version of fairlead wrote it
│   ├── RecordingError     a recording cannot be written or replayed
│   └── SettingsError      an option or setting has no such value
├── MissingPartError       an optional part is not installed          exit 2
├── OutputError            the disk cannot take what is written       exit 74
├── KubeletError           a kubelet could not be asked or served      exit 1
├── AllocationRefusedError an allocation was refused                  exit 1
├── WardenError            the warden refused or cannot be reached    exit 1
└── ClusterError           the cluster did not do what it was asked   exit 1
    ├── ClusterUnavailableError  it cannot be reached, or is not well   exit 3
    ├── AccessError        it does not know us, or forbids it         exit 2
    ├── MissingApiError    it does not serve this API group or kind   exit 2
    ├── InvalidError       it will not take this object or request    exit 2
    │   └── TooLargeError  the object would be larger than it keeps
    ├── NotFoundError      there is no such object
    ├── AlreadyExistsError there is one of that name already
    ├── ConflictError      the object is not as we thought it was
    ├── GoneError          this resource version is no longer kept: list anew
    ├── TooNewError        this resource version is yet to come: list anew
    └── TooManyRequestsError  it is too busy, and was when asked again  exit 3
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


class AnalysisError(UserError):
    """A model file is damaged, hostile, too large, or leaves a dimension open."""


class CatalogError(UserError):
    """A catalog file cannot be used."""


class CaptureError(UserError):
    """A captured host cannot be written or read."""


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


class RecordingError(UserError):
    """A recording cannot be written or replayed."""


class FleetError(UserError):
    """A fleet file cannot be used."""


class LabError(UserError):
    """A lab, or a program of it, cannot be built, fetched, started or found."""


class SettingsError(UserError):
    """An option or setting has a value that it cannot have."""


class MissingPartError(FairleadError):
    """An optional part of the program is not installed; the command line adds how to install it."""

    exit_code = 2


class OutputError(FairleadError):
    """The disk is full or damaged; what was written so far is removed. The code is sysexits.h's EX_IOERR."""

    exit_code = 74


class KubeletError(FairleadError):
    """A kubelet could not be asked, or a socket for it could not be opened."""


class AllocationRefusedError(FairleadError):
    """An allocation was refused; the message is the reason, and the user of the pod reads it."""


class WardenError(FairleadError):
    """The warden refused what was asked, or cannot be reached."""


class ClusterError(FairleadError):
    """The cluster did not do what it was asked."""

    def __init__(self, message: str, hint: str = "", *, code: int = 0, reason: str = "") -> None:
        super().__init__(message, hint)
        self.code = code
        """The HTTP status; 0 where there was no answer."""
        self.reason = reason
        """The API server's own word for it, such as `AlreadyExists`."""


class ClusterUnavailableError(ClusterError):
    """The cluster cannot be reached, or is not well enough to answer."""

    exit_code = 3
    maybe_done = False
    """The request was sent and may have been carried out: read back before undoing anything."""


class AccessError(ClusterError):
    """The cluster does not know us, or forbids what was asked."""

    exit_code = 2


class MissingApiError(ClusterError):
    """The cluster does not serve this API group, version or kind."""

    exit_code = 2


class InvalidError(ClusterError):
    """The cluster will not take this object or request."""

    exit_code = 2


class TooLargeError(InvalidError):
    """The object would be larger than the cluster keeps one: nothing can be added to it."""


class NotFoundError(ClusterError):
    """There is no such object."""


class AlreadyExistsError(ClusterError):
    """There is an object of that name already."""


class ConflictError(ClusterError):
    """The object is not, or no longer, as we thought it was: read it again."""


class GoneError(ClusterError):
    """The resource version or page is no longer kept: list anew."""


class TooNewError(ClusterError):
    """The server has not come to this resource version, or has lost it: list anew."""


class TooManyRequestsError(ClusterError):
    """The cluster asks us to wait, and we have waited as long as we may."""

    exit_code = 3
