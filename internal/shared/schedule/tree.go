// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// fields iterates over the names and values of an object; other values have none.
func fields(object *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(name, value *yaml.Node) bool) {
		if object.Kind != yaml.MappingNode {
			return
		}
		for pair := range slices.Chunk(object.Content, 2) {
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// longestQuote is the maximum length of a string in a message.
const longestQuote = 40

// describe returns a value as messages show it.
func describe(value *yaml.Node) string {
	switch value.ShortTag() {
	case "!!map":
		return "an object"
	case "!!seq":
		return "a list"
	case "!!str":
		return quote(value.Value)
	case "!!null":
		return "null"
	}
	return value.Value
}

// quote writes a string on one line, as ktsnd does (datapath/daemon/control/control_json.c).
func quote(text string) string {
	if len(text) > longestQuote {
		text = strings.ToValidUTF8(text[:longestQuote], "")
	}
	quoted := []byte{'"'}
	for _, char := range text {
		switch {
		case char == '"' || char == '\\':
			quoted = append(quoted, '\\', byte(char))
		case unicode.IsControl(char): // C1 too, which terminals obey
			for _, octet := range []byte(string(char)) {
				quoted = fmt.Appendf(quoted, `\x%02x`, octet)
			}
		default:
			quoted = utf8.AppendRune(quoted, char)
		}
	}
	return string(append(quoted, '"'))
}

// parseTree reads a file that holds one value. The fault, if any, lacks the file's name.
func parseTree(data []byte) (*yaml.Node, *Error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, &Error{Message: "is empty; must hold a " + tableName}
	} else if err != nil {
		return nil, errortext.Syntax("is neither YAML nor JSON", err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, &Error{Line: second.Line, Message: "begins a second document; a file holds one schedule"}
	} else if !errors.Is(err, io.EOF) {
		return nil, errortext.Syntax("is neither YAML nor JSON", err)
	}
	return first.Content[0], check(first.Content[0])
}

// check finds what a schedule cannot have: anchors, aliases, tags, merge keys, names that are not strings, and names that occur twice.
func check(value *yaml.Node) *Error {
	if value.Kind == yaml.AliasNode || value.Anchor != "" || value.Style&yaml.TaggedStyle != 0 {
		return unsupported(value)
	}
	names := map[string]bool{}
	for i, inner := range value.Content {
		isName := value.Kind == yaml.MappingNode && i%2 == 0
		if isName && inner.ShortTag() == "!!merge" {
			return unsupported(inner)
		}
		if fault := check(inner); fault != nil {
			return fault
		}
		switch {
		case !isName:
			continue
		case inner.ShortTag() != "!!str":
			return &Error{Line: inner.Line, Message: fmt.Sprintf("has a key that is %s; names of fields are strings", describe(inner))}
		case names[inner.Value]:
			return &Error{Line: inner.Line, Message: fmt.Sprintf("has the field %s twice", quote(inner.Value))}
		}
		names[inner.Value] = true
	}
	return nil
}

func unsupported(value *yaml.Node) *Error {
	return &Error{Line: value.Line, Message: "has an anchor, alias, tag or merge key, which schedules cannot have; " +
		"write the value itself"}
}

// integerOf parses an integer of YAML: decimal, or with the prefix 0x, 0o or 0b.
func integerOf(text string) any {
	text = strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+")
	if number, err := strconv.ParseUint(text, 0, 64); err == nil {
		return number
	}
	if number, err := strconv.ParseInt(text, 0, 64); err == nil {
		return number
	}
	return nil
}

// WriteYAML writes a value under the names and in the order that its JSON has.
func WriteYAML(out io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	var document yaml.Node // JSON is YAML, but for its looks
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	plain(&document)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return encoder.Close()
}

// plain removes braces and quotes that YAML does not need.
func plain(value *yaml.Node) {
	value.Style = 0
	for _, inner := range value.Content {
		plain(inner)
	}
}
