// A tool for language models: counts the lines and words of a text.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"strings"
)

// schema tells a model what the tool does and what it takes.
const schema = `{
  "name": "word_count",
  "description": "Count the lines and the words of a text, exactly.",
  "parameters": {
    "type": "object",
    "properties": {
      "text": {"type": "string", "description": "The text to count"}
    },
    "required": ["text"]
  }
}`

type arguments struct {
	Text *string `json:"text"`
}

type counts struct {
	Lines int `json:"lines"`
	Words int `json:"words"`
}

// refusal is the answer to arguments that cannot be used, which a model wrote.
type refusal struct {
	Error string `json:"error"`
	Code  string `json:"error_code"`
}

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
	if err != nil {
		write(refusal{err.Error(), "INVALID_PARAMS"})
		return
	}
	write(count(text))
}

// read returns the text in the arguments of a call.
func read(input []byte) (string, error) {
	var args arguments
	err := json.Unmarshal(input, &args)
	var mistyped *json.UnmarshalTypeError
	if isText := errors.As(err, &mistyped) && mistyped.Field == "text"; err != nil && !isText {
		return "", errors.New("the arguments must be one JSON object")
	}
	if err != nil || args.Text == nil {
		return "", errors.New("`text` must be a string")
	}
	return *args.Text, nil
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
