// SPDX-License-Identifier: Apache-2.0

// Hostsettings records the files that package hostsettings reads on this machine, for its tests: each with its content, one a line.
//
//	go run ./scripts/hostsettings eth0 >internal/node/hostsettings/testdata/NAME.txt
//
// As the first process of a virtual machine it mounts the file systems, records, and powers the machine off.
package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/kubernetsn/kubernetsn/internal/node/hostsettings"
)

func main() {
	first := os.Getpid() == 1
	if first {
		for kind, at := range map[string]string{"proc": "/proc", "sysfs": "/sys", "devtmpfs": "/dev"} {
			_ = os.Mkdir(at, 0o755)
			_ = syscall.Mount(kind, at, kind, 0, "")
		}
	}
	var card string
	if len(os.Args) > 1 {
		card = os.Args[1]
	}
	err := record(os.Stdout, os.DirFS("/"), card)
	if first {
		_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostsettings:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// record writes lines of a path and its quoted content. It keeps only the processes whose names matter.
func record(to io.Writer, files fs.FS, card string) error {
	out := bufio.NewWriter(to)
	for _, pattern := range hostsettings.Patterns {
		names, err := fs.Glob(files, strings.ReplaceAll(pattern, "INTERFACE", card))
		if err != nil {
			return fmt.Errorf("find %s: %w", pattern, err)
		}
		for _, name := range names {
			content, err := fs.ReadFile(files, name)
			text := string(content)
			if err != nil || pattern == "proc/[0-9]*/comm" && text != "irqbalance\n" {
				continue
			}
			fmt.Fprintf(out, "%s %q\n", name, reduce(name, text))
		}
	}
	return out.Flush()
}

// reduce removes what is not read and identifies a machine: other kernel arguments, and all but one processor's flags.
func reduce(name, text string) string {
	var kept []string
	switch name {
	case "proc/cmdline":
		for word := range strings.FieldsSeq(text) {
			if key, _, _ := strings.Cut(word, "="); slices.Contains(hostsettings.Arguments, key) {
				kept = append(kept, word)
			}
		}
	case "proc/cpuinfo":
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "flags") {
				return line
			}
		}
	default:
		return text
	}
	return strings.Join(kept, " ") + "\n"
}
