// SPDX-License-Identifier: Apache-2.0

package masters

import (
	"slices"
	"strings"
)

// program tells by a process's arguments whether it sets CLOCK_REALTIME. read reads a file as the process would.
type program func(arguments []string, read func(path string) string) bool

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

func always([]string, func(string) string) bool { return true }

// chronyd sets the clock but with -x; with -Q it prints, and with -p too.
func chronyd(arguments []string, _ func(string) string) bool {
	return !slices.ContainsFunc(arguments, func(one string) bool { return one == "-x" || one == "-Q" || one == "-p" })
}

// phc2sys sets the clock that -c names, or by -a those of ptp4l's ports, to which -r adds the system's. Without either it sets the
// system's.
func phc2sys(arguments []string, _ func(string) string) bool {
	if clock, given := option(arguments, "-c"); given {
		return clock == "CLOCK_REALTIME"
	}
	has := func(flag string) bool {
		return slices.ContainsFunc(arguments, func(one string) bool {
			return strings.HasPrefix(one, "-") && !strings.HasPrefix(one, "--") && strings.Contains(one, flag)
		})
	}
	return !has("a") || has("r")
}

// ptp4l sets the system's clock where it stamps packets in software, unless it runs free.
func ptp4l(arguments []string, read func(string) string) bool {
	settings := map[string]string{"free_running": "0", "time_stamping": "hardware"}
	if path, given := option(arguments, "-f"); given {
		for line := range strings.Lines(read(path)) {
			fields := strings.Fields(line)
			if len(fields) >= 2 && settings[fields[0]] != "" {
				settings[fields[0]] = fields[1]
			}
		}
	}
	for name := range settings {
		if value, given := option(arguments, "--"+name); given {
			settings[name] = value
		}
	}
	software := slices.Contains(arguments, "-S") || settings["time_stamping"] == "software"
	return software && settings["free_running"] == "0"
}

// option is the value of an option: behind it, or in the next argument.
func option(arguments []string, name string) (string, bool) {
	for i, one := range arguments {
		if one == name && i+1 < len(arguments) {
			return arguments[i+1], true
		}
		if value, found := strings.CutPrefix(one, name); found && value != "" {
			return strings.TrimPrefix(value, "="), true
		}
	}
	return "", false
}
