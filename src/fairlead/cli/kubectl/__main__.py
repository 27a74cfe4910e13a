"""`python -m fairlead.cli.kubectl`: the plugin, as the package of krew starts it."""

from fairlead.cli.kubectl.plugin import run

run()
