"""Wikipedia dumps: pages, wikitext and templates."""
