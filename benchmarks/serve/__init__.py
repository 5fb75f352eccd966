"""A whole server under load: many streams, long prompts, clients that leave. Asserts nothing."""
