"""Alembic's scripts, one for each change of the schema. A script that was released is never edited."""
