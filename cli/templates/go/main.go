// A tool for language models: counts the lines and words of a text or of a file.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
)

// schema tells a model what the tool does and what it takes.
const schema = `{
  "name": "word_count",
  "description": "Count the lines and the words of a text or a file, exactly.",
  "parameters": {
    "type": "object",
    "properties": {
      "text": {"type": "string", "description": "The text to count"},
      "path": {"type": "string", "description": "The file to count, without a text"}
    }
  }
}`

type arguments struct {
	Text any `json:"text"`
	Path any `json:"path"`
}

type counts struct {
	Lines int `json:"lines"`
	Words int `json:"words"`
}

// failure is the answer to a call that cannot be done. The model that wrote the arguments reads it.
type failure struct {
	Reason string `json:"error"`
	Code   string `json:"error_code"`
}

func (f failure) Error() string { return f.Reason }

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--schema" {
		write(json.RawMessage(schema))
		return
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	text, err := read(input)
	var failed failure
	switch {
	case errors.As(err, &failed):
		write(failed)
	case err != nil:
		log.Fatal(err)
	default:
		write(count(text))
	}
}

// read returns the text that a call is about. Its error is a failure.
func read(input []byte) (string, error) {
	var args *arguments
	if err := json.Unmarshal(input, &args); err != nil || args == nil {
		return "", failure{"the arguments must be one JSON object", "INVALID_PARAMS"}
	}
	if text, ok := args.Text.(string); ok {
		return text, nil
	}
	path, ok := args.Path.(string)
	if !ok {
		return "", failure{"`text` or `path` must be a string", "INVALID_PARAMS"}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", failure{fmt.Sprintf("cannot read `%s`: %v", path, err), "READ_FAILED"}
	}
	return string(content), nil
}

func count(text string) counts {
	lines := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		lines++
	}
	return counts{Lines: lines, Words: len(strings.Fields(text))}
}

// write prints the one JSON value that is the answer.
func write(answer any) {
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}
