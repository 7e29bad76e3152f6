// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/kubernetsn/kubernetsn/internal/shared/errortext"
)

// kind is the type of a value.
type kind int

const (
	kindObject kind = iota
	kindList
	kindInteger
	kindBoolean
	kindString
	kindOther
)

// node is a value of a file.
type node struct {
	kind   kind
	line   int
	fields []field
	items  []*node
	// text is the text of a scalar, without quotes.
	text string
	// integer is set for integers: int64 or uint64.
	integer any
	boolean bool
}

// field is a name and its value in an object.
type field struct {
	name  string
	line  int
	value *node
}

// get returns the value of a field, or nil.
func (n *node) get(name string) *node {
	for _, field := range n.fields {
		if field.name == name {
			return field.value
		}
	}
	return nil
}

// longestQuote is the maximum length of a string in a message.
const longestQuote = 40

// describe returns the value as messages show it.
func (n *node) describe() string {
	switch n.kind {
	case kindObject:
		return "an object"
	case kindList:
		return "a list"
	case kindString:
		return quote(n.text)
	default:
		return n.text
	}
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
func parseTree(data []byte) (*node, *Error) {
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
	return convert(first.Content[0])
}

// convert returns a tree of the types that a schedule can have.
func convert(value *yaml.Node) (*node, *Error) {
	if value.Kind == yaml.AliasNode || value.Anchor != "" || value.Style&yaml.TaggedStyle != 0 {
		return nil, unsupported(value)
	}
	switch value.Kind {
	case yaml.MappingNode:
		return convertObject(value)
	case yaml.SequenceNode:
		list := &node{kind: kindList, line: value.Line}
		for _, item := range value.Content {
			converted, fault := convert(item)
			if fault != nil {
				return nil, fault
			}
			list.items = append(list.items, converted)
		}
		return list, nil
	default:
		return convertScalar(value), nil
	}
}

func unsupported(value *yaml.Node) *Error {
	return &Error{Line: value.Line, Message: "has an anchor, alias, tag or merge key, which schedules cannot have; " +
		"write the value itself"}
}

func convertScalar(value *yaml.Node) *node {
	scalar := &node{kind: kindOther, line: value.Line, text: value.Value}
	switch value.ShortTag() {
	case "!!int":
		scalar.integer = integerOf(value.Value)
		if scalar.integer != nil {
			scalar.kind = kindInteger
		}
	case "!!bool":
		scalar.kind = kindBoolean
		scalar.boolean = strings.EqualFold(value.Value, "true")
	case "!!str":
		scalar.kind = kindString
	case "!!null":
		scalar.text = "null"
	}
	return scalar
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

func convertObject(value *yaml.Node) (*node, *Error) {
	object := &node{kind: kindObject, line: value.Line}
	seen := map[string]bool{}
	for pair := range slices.Chunk(value.Content, 2) {
		key := pair[0]
		if key.ShortTag() == "!!merge" {
			return nil, unsupported(key)
		}
		name, fault := convert(key)
		if fault != nil {
			return nil, fault
		}
		if name.kind != kindString {
			return nil, &Error{Line: key.Line, Message: fmt.Sprintf("has a key that is %s; names of fields are strings",
				name.describe())}
		}
		if seen[name.text] {
			return nil, &Error{Line: key.Line, Message: fmt.Sprintf("has the field %s twice", quote(name.text))}
		}
		converted, fault := convert(pair[1])
		if fault != nil {
			return nil, fault
		}
		seen[name.text] = true
		object.fields = append(object.fields, field{name.text, key.Line, converted})
	}
	return object, nil
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
