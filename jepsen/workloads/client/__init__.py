"""A client process: what it is told (`configuration`), its life (`process`), how it reaches brokers (`access`), what it
writes down (`recording`), its values and process numbers (`values`, `numbering`)."""
