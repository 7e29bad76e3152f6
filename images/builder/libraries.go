// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"strings"
)

// libraries returns a file and the shared libraries that the dynamic loader would load for it, with the paths at which
// the loader looks for them. Libraries that a program loads itself must be in its definition.
func libraries(file string) ([]string, error) {
	dynamic, err := isDynamic(file)
	if err != nil || !dynamic {
		return nil, err
	}
	output, err := exec.Command("ldd", file).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("list the libraries of %s: %w: %s", file, err, output)
	}
	return parseLdd(file, string(output))
}

// isDynamic reports whether a file needs the loader: static programs, scripts and data do not.
func isDynamic(file string) (bool, error) {
	binary, err := elf.Open(file)
	if err != nil {
		return false, nil //nolint:nilerr // not an ELF file
	}
	defer binary.Close()
	needed, err := binary.ImportedLibraries()
	if err != nil {
		return false, fmt.Errorf("read %s: %w", file, err)
	}
	return len(needed) > 0, nil
}

// parseLdd accepts three kinds of lines: "name => path (address)", "path (address)" for the loader, and the kernel's
// own object without a path.
func parseLdd(file, output string) ([]string, error) {
	var existing []string
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		switch {
		case strings.Contains(line, "not found"):
			return nil, fmt.Errorf("%s needs %s, which this machine does not have", file, fields[0])
		case len(fields) >= 3 && fields[1] == "=>":
			existing = append(existing, fields[2])
		case len(fields) >= 1 && strings.HasPrefix(fields[0], "/"):
			existing = append(existing, fields[0])
		}
	}
	return existing, nil
}
