"""The pages that people see: plain HTML and forms, a little script, nothing from other sites."""
