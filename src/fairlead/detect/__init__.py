"""Discovery: evidence from every bus, merged per physical device."""

from fairlead.detect.scan import detect as detect
