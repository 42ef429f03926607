//! The schemas that the tools print for `--schema`: the texts of the specification.
//!
//! This module has the texts; [`crate::command`] prints them.

/// The schema of `bash`.
pub(crate) const BASH: &str = r#"{"name":"bash","description":"Execute a shell command and return output","parameters":{"type":"object","properties":{"command":{"type":"string","description":"Shell command to execute"}},"required":["command"]}}"#;

/// The schema of `file_read`.
pub(crate) const FILE_READ: &str = r#"{"name":"file_read","description":"Read contents of a file","parameters":{"type":"object","properties":{"file_path":{"type":"string","description":"Absolute or relative path to file"},"offset":{"type":"integer","description":"Line number to start reading from (1-based)"},"limit":{"type":"integer","description":"Number of lines to read"}},"required":["file_path"]}}"#;

/// The schema of `file_write`.
pub(crate) const FILE_WRITE: &str = r#"{"name":"file_write","description":"Write content to a file (creates or overwrites)","parameters":{"type":"object","properties":{"file_path":{"type":"string","description":"Absolute or relative path to file"},"content":{"type":"string","description":"Content to write to file"}},"required":["file_path","content"]}}"#;

/// The schema of `file_edit`.
pub(crate) const FILE_EDIT: &str = r#"{"name":"file_edit","description":"Edit a file by replacing exact text matches. You must read the file before editing.","parameters":{"type":"object","properties":{"file_path":{"type":"string","description":"Absolute or relative path to file"},"old_string":{"type":"string","description":"Exact text to find and replace"},"new_string":{"type":"string","description":"Text to replace old_string with"},"replace_all":{"type":"boolean","description":"Replace all occurrences (default: false, fails if not unique)"}},"required":["file_path","old_string","new_string"]}}"#;

/// The schema of `glob`.
pub(crate) const GLOB: &str = r#"{"name":"glob","description":"Find files matching a glob pattern","parameters":{"type":"object","properties":{"pattern":{"type":"string","description":"Glob pattern (e.g., '*.txt', 'src/**/*.c')"},"path":{"type":"string","description":"Directory to search in (default: current directory)"}},"required":["pattern"]}}"#;

/// The schema of `grep`.
pub(crate) const GREP: &str = r#"{"name":"grep","description":"Search for pattern in files using regular expressions","parameters":{"type":"object","properties":{"pattern":{"type":"string","description":"Regular expression pattern (POSIX extended)"},"glob":{"type":"string","description":"Glob pattern to filter files (e.g., '*.c')"},"path":{"type":"string","description":"Directory to search in (default: current directory)"}},"required":["pattern"]}}"#;
