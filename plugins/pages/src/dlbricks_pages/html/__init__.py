"""Parts that all HTML pages share: layout, style sheet, tables and plots."""
