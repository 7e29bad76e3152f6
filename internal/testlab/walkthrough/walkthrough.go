// SPDX-License-Identifier: Apache-2.0

// Package walkthrough reads the commands of a documentation page that tests run, and compares their output with the page.
//
// A block of commands follows the line `<!-- run: NAME -->`, or `<!-- run: NAME, until the output matches -->` for commands
// that a reader repeats until a cluster is ready. Its output, if the page shows it, follows the line `<!-- output -->`. In an
// output, `...` stands for any text of a line, and a line `...` for any number of lines. Ages such as 20s and the number of
// spaces between words may differ.
package walkthrough

import (
	"fmt"
	"regexp"
	"strings"
)

// Block is a block of commands.
type Block struct {
	Name     string
	Commands string
	// Output is the expected standard output; "" if the page shows none.
	Output string
	// Repeat reports whether the commands are repeated until their output matches.
	Repeat bool
}

var (
	run    = regexp.MustCompile(`^<!-- run: ([a-z0-9-]+)(, until the output matches)? -->$`)
	output = "<!-- output -->"
	fence  = "```"
)

// Read returns the marked blocks of a page, in their order.
func Read(page string) ([]Block, error) {
	var blocks []Block
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		marks := run.FindStringSubmatch(lines[i])
		switch {
		case marks != nil:
			blocks = append(blocks, Block{Name: marks[1], Repeat: marks[2] != ""})
		case lines[i] == output && len(blocks) > 0 && blocks[len(blocks)-1].Output == "":
		case lines[i] == output || strings.HasPrefix(lines[i], "<!-- run"):
			return nil, fmt.Errorf("line %d: %q is no mark of a block, or a second output of its commands", i+1, lines[i])
		default:
			continue
		}
		text, length, err := fenced(lines[i+1:])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if last := &blocks[len(blocks)-1]; marks != nil {
			last.Commands = text
		} else {
			last.Output = text
		}
		i += length
	}
	return blocks, nil
}

// fenced returns the content of the fenced block at the begin of lines, and the block's number of lines.
func fenced(lines []string) (text string, length int, err error) {
	if len(lines) == 0 || !strings.HasPrefix(lines[0], fence) {
		return "", 0, fmt.Errorf("no fenced block follows directly")
	}
	for i, line := range lines[1:] {
		if line == fence {
			return text, i + 2, nil
		}
		text += line + "\n"
	}
	return "", 0, fmt.Errorf("the fenced block has no end")
}

var (
	spaces = regexp.MustCompile(`\s+`)
	age    = regexp.MustCompile(`\b(\d+[smhd]){1,2}$`)
)

// normal returns a line with single spaces and without its age at the end.
func normal(line string) string {
	return age.ReplaceAllString(spaces.ReplaceAllString(strings.TrimSpace(line), " "), "AGE")
}

// Match returns an error that names the first expected line that an output lacks.
func Match(want, got string) error {
	expected, actual := splitLines(want), splitLines(got)
	if at, ok := match(expected, actual); !ok {
		if at == len(expected) {
			return fmt.Errorf("the output has more lines than the %d of the page", len(expected))
		}
		return fmt.Errorf("the output lacks line %d of the page, %q", at+1, expected[at])
	}
	return nil
}

func splitLines(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	lines := strings.Split(strings.TrimRight(text, "\n "), "\n")
	for i := range lines {
		lines[i] = normal(lines[i])
	}
	return lines
}

// match reports whether lines have the expected form, or else the furthest expected line that was tried in vain.
func match(expected, lines []string) (furthest int, ok bool) {
	for i, want := range expected {
		if want == "..." {
			for skip := 0; skip <= len(lines); skip++ {
				at, ok := match(expected[i+1:], lines[skip:])
				if ok {
					return 0, true
				}
				furthest = max(furthest, i+1+at)
			}
			return furthest, false
		}
		if len(lines) == 0 || !matchLine(want, lines[0]) {
			return i, false
		}
		lines = lines[1:]
	}
	return len(expected), len(lines) == 0
}

// matchLine reports whether a line has the expected parts between "...".
func matchLine(want, line string) bool {
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(line)
}
