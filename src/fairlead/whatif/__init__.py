"""Ask a snapshot where workloads would go: decide for all of them, and explain each yes and no."""

from fairlead.whatif.answer import answer as answer
from fairlead.whatif.document import Answer as Answer
from fairlead.whatif.document import Detail as Detail
