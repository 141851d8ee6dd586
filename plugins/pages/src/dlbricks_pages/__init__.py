"""The atlas of a store as a site: static pages that open from their folder."""
