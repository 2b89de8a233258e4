"""Give the models of the language what they share: keys are spelt as in the file, unknown ones are refused."""

from __future__ import annotations

from pydantic import ConfigDict

from cenote.plugins.settings import Settings


class LanguageModel(Settings):
    """A mapping of the language: its keys are spelt as in the file, never as in Python."""

    model_config = ConfigDict(populate_by_name=False)


class EnvironmentModel(LanguageModel, extra="allow"):
    """The software that workers run. Short form: its type."""

    type: str
    """`current`, or a plugin; the other keys are its own."""


class CredentialModel(LanguageModel, extra="allow"):
    """What lets workers reach protected data. Short form: its type."""

    type: str
    """`none`, or a plugin; the other keys are its own."""
