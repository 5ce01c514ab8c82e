"""What the owner of a study does with its database: raters, gold pairs, exports, backups, copies."""
