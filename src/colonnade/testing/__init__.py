"""Conformance kits: what every codec, method and driver must do, for anybody's own."""
