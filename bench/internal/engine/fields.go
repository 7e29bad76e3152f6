// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Fields are the destinations of the fields of a YAML mapping by name: a pointer to the value, or a Field.
type Fields map[string]any

// Field reads a value.
type Field func(*yaml.Node) error

// read reads a mapping. An error begins with the name of the field; what names the mapping in messages.
func (f Fields) read(n *yaml.Node, what string) error {
	var values map[string]yaml.Node
	if err := decode(n, &values); err != nil { // also if a name is there twice
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, to := values[name], f[name]
		if to == nil {
			return &lineError{value.Line, fmt.Errorf("%s: is no field of %s; those are %s", name, what, strings.Join(slices.Sorted(maps.Keys(f)), ", "))}
		}
		for _, scalar := range append(value.Content, &value) {
			if scalar.ShortTag() == "!!float" { // the library would cut it to a whole number
				return &lineError{scalar.Line, fmt.Errorf("%s: has %s; must be a whole number, or a duration with its unit", name, scalar.Value)}
			}
		}
		if err := decode(&value, to); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// lineError is an error with its line in the file.
type lineError struct {
	line int
	error
}

func (e *lineError) Unwrap() error { return e.error }

// decode reads a value. Errors are lineErrors.
func decode(n *yaml.Node, to any) (err error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if field, ok := to.(Field); ok {
		err = field(n)
	} else {
		err = n.Decode(to)
	}
	var located *lineError
	var mismatch *yaml.TypeError
	switch {
	case err == nil || errors.As(err, &located):
		return err
	case errors.As(err, &mismatch): // each is "line N: TEXT"
		located = &lineError{line: n.Line}
		_, text, _ := strings.Cut(mismatch.Errors[0], ": ")
		_, _ = fmt.Sscanf(mismatch.Errors[0], "line %d:", &located.line)
		located.error = errors.New(text)
		return located
	}
	return &lineError{n.Line, err}
}

// Within is a field with a number or a duration.
func Within[T int | time.Duration](to *T, least, most T) Field {
	return func(n *yaml.Node) error {
		if err := n.Decode(to); err != nil {
			return err
		}
		return checkWithin(*to, least, most)
	}
}

func checkWithin[T int | time.Duration](value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("is %v; give %v to %v", value, least, most)
	}
	return nil
}

// Numbers is a field with a list of different whole numbers.
func Numbers(to *[]int, least, most int) Field {
	return list(to, func(number int) error { return checkWithin(number, least, most) })
}

// Words is a field with a list of different known names.
func Words(to *[]string, known ...string) Field {
	return list(to, func(word string) error {
		if !slices.Contains(known, word) {
			return fmt.Errorf("is %q; give some of %v", word, known)
		}
		return nil
	})
}

// list is a field with a list of different values.
func list[T comparable](to *[]T, check func(T) error) Field {
	return func(n *yaml.Node) error {
		*to = nil
		if err := n.Decode(to); err != nil {
			return err
		}
		if len(*to) == 0 {
			return errors.New("is empty; give at least one")
		}
		for i, value := range *to {
			if err := check(value); err != nil {
				return &lineError{n.Content[i].Line, fmt.Errorf("an item %w", err)}
			}
			if slices.Contains((*to)[:i], value) {
				return fmt.Errorf("has %v twice; give each once", value)
			}
		}
		return nil
	}
}

// Mappings is a field with a list of structured values. Each begins as a copy of a default; what is its name in
// messages.
func Mappings[T any](to *[]T, what string, begin func() T, fields func(*T) Fields) Field {
	return func(n *yaml.Node) error {
		var items []yaml.Node
		if err := n.Decode(&items); err != nil {
			return err
		}
		if len(items) == 0 {
			return errors.New("is empty; give at least one")
		}
		*to = make([]T, len(items))
		for i := range items {
			(*to)[i] = begin()
			if err := fields(&(*to)[i]).read(&items[i], what); err != nil {
				return err
			}
		}
		return nil
	}
}
