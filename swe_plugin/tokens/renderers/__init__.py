"""Renderers: one class per way of turning a conversation into ids.

Nothing is imported here: `chat_template.ChatTemplateRenderer` needs a Hugging Face tokenizer,
`bytes.ByteRenderer` needs nothing and serves tests and dry runs.
"""
