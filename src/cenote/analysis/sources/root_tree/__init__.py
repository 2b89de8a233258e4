"""ROOT files: TTree and RNTuple."""

from cenote.analysis.sources.root_tree.source import RootTreeSource

__all__ = ["RootTreeSource"]
