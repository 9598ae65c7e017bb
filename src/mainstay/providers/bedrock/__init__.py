"""Amazon Bedrock Converse API."""
