// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"slices"
	"strings"
)

// verdict says whether a process sets CLOCK_REALTIME. unread is the file that would say so, and cannot be read.
type verdict struct {
	sets   bool
	unread string
}

// program tells by a process's arguments whether it sets CLOCK_REALTIME. read reads a file as the process would, and is false where it
// cannot be read.
type program func(arguments []string, read func(path string) (string, bool)) verdict

// programs by what the kernel calls their processes, which is 15 characters at most.
var programs = map[string]program{
	"chronyd":         chronyd,
	"ntpd":            always,
	"systemd-timesyn": always,
	"phc2sys":         phc2sys,
	"ptp4l":           ptp4l,
}

// names of programs whose processes' names are cut.
var names = map[string]string{"systemd-timesyn": "systemd-timesyncd"}

// The short options that take a value, of chronyd 4, phc2sys 3.1 and ptp4l 3.1: in one word they may follow others, and what is behind
// them is theirs.
const (
	valuesOfChronyd = "fFhlLPtu"
	valuesOfPhc2sys = "cdfsEPISFRNOLMiunzlt"
	valuesOfPtp4l   = "fipl"
)

func always([]string, func(string) (string, bool)) verdict { return verdict{sets: true} }

// chronyd sets the clock but with -x; with -Q it prints, and with -p too.
func chronyd(arguments []string, _ func(string) (string, bool)) verdict {
	given := parse(arguments, valuesOfChronyd)
	return verdict{sets: !given.has("x") && !given.has("Q") && !given.has("p")}
}

// phc2sys sets the clock that -c names, or by -a those of ptp4l's ports, to which -r adds the system's. Without either it sets the
// system's.
func phc2sys(arguments []string, _ func(string) (string, bool)) verdict {
	given := parse(arguments, valuesOfPhc2sys)
	if clock, named := given.value("c"); named {
		return verdict{sets: clock == "CLOCK_REALTIME"}
	}
	return verdict{sets: !given.has("a") || given.has("r")}
}

// ptp4l sets the system's clock where it stamps packets in software, unless it runs free or never follows. The command line goes before
// the configuration.
func ptp4l(arguments []string, read func(string) (string, bool)) verdict {
	given := parse(arguments, valuesOfPtp4l)
	config := configuration{global: map[string]string{}}
	path, unread := "", false
	if named, has := given.value("f"); has {
		text, readable := read(named)
		path, unread = named, !readable
		config.read(text)
	}
	for i := range given {
		if given[i].name == "i" {
			config.port(given[i].value)
		}
	}
	for _, name := range []string{"time_stamping", "free_running", "masterOnly", "serverOnly"} {
		if value, has := given.value(name); has {
			config.set(name, value)
		}
	}
	if given.has("S") || given.has("H") || given.has("L") {
		config.set("time_stamping", map[bool]string{true: "software", false: "hardware"}[given.has("S")])
	}
	stamping, configured := config.global["time_stamping"]
	switch {
	case configured && stamping != "software", on(config.global["free_running"]), config.onlyServes():
		return verdict{}
	case unread:
		return verdict{unread: path}
	default:
		return verdict{sets: configured}
	}
}

// configuration has the settings of a ptp4l.
type configuration struct {
	global map[string]string
	ports  []map[string]string
	names  []string
}

// read parses a configuration file of ptp4l.
func (c *configuration) read(text string) {
	section := c.global
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			name = strings.TrimSuffix(name, "]")
			switch name {
			case "global":
				section = c.global
			case "unicast_master_table":
				section = map[string]string{}
			default:
				section = c.port(name)
			}
			continue
		}
		if fields := strings.Fields(line); len(fields) >= 2 && !strings.HasPrefix(line, "#") {
			section[fields[0]] = fields[1]
		}
	}
}

// port is the section of an interface.
func (c *configuration) port(name string) map[string]string {
	if at := slices.Index(c.names, name); at >= 0 {
		return c.ports[at]
	}
	c.names, c.ports = append(c.names, name), append(c.ports, map[string]string{})
	return c.ports[len(c.ports)-1]
}

// set is for what the command line says: of all ports.
func (c *configuration) set(name, value string) {
	c.global[name] = value
	for _, port := range c.ports {
		delete(port, name)
	}
}

// onlyServes reports whether no port ever follows. linuxptp 4 has renamed the option.
func (c *configuration) onlyServes() bool {
	serves := func(port map[string]string) bool {
		for _, name := range []string{"masterOnly", "serverOnly"} {
			value, present := port[name]
			if !present {
				value = c.global[name]
			}
			if on(value) {
				return true
			}
		}
		return false
	}
	return len(c.ports) > 0 && !slices.ContainsFunc(c.ports, func(port map[string]string) bool { return !serves(port) })
}

func on(value string) bool { return value != "" && value != "0" }

// argument is an option of a command line.
type argument struct{ name, value string }

// commandLine are the options of a process.
type commandLine []argument

// parse reads options as getopt_long(3) does: short ones may share a word, and a value is behind its option in the same word, or the next
// word. All long options of linuxptp have a value. withValue are the short ones that have.
func parse(arguments []string, withValue string) commandLine {
	var line commandLine
	for i := 0; i < len(arguments); i++ {
		word := arguments[i]
		next := func() string {
			if i+1 < len(arguments) {
				i++
				return arguments[i]
			}
			return ""
		}
		if word == "--" {
			break
		}
		if long, ok := strings.CutPrefix(word, "--"); ok {
			name, value, has := strings.Cut(long, "=")
			if !has {
				value = next()
			}
			line = append(line, argument{name, value})
			continue
		}
		if strings.HasPrefix(word, "-") {
			line = append(line, cluster(word[1:], withValue, next)...)
		}
	}
	return line
}

// cluster parses the short options of one word.
func cluster(word, withValue string, next func() string) commandLine {
	var line commandLine
	for i := range len(word) {
		name := word[i : i+1]
		if !strings.Contains(withValue, name) {
			line = append(line, argument{name: name})
			continue
		}
		value := word[i+1:]
		if value == "" {
			value = next()
		}
		return append(line, argument{name, value})
	}
	return line
}

func (l commandLine) has(name string) bool {
	return slices.ContainsFunc(l, func(option argument) bool { return option.name == name })
}

// value returns the value of the last such option, which overrides earlier ones.
func (l commandLine) value(name string) (value string, given bool) {
	for _, option := range l {
		if option.name == name {
			value, given = option.value, true
		}
	}
	return value, given
}
