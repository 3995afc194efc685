"""Client process: its configuration (`configuration`), its life cycle (`process`) and access to brokers (`access`).

Also its history (`recording`), its values and its process numbers (`values`, `numbering`)."""
