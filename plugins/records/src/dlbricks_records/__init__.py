"""Records of results, which others repeat and compare: actions of ``dlbricks results``."""
