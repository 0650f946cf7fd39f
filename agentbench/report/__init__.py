"""Floor 5: pictures, tables and pages made from what runs recorded."""
