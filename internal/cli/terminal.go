// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// defaultWidth is the number of columns of output that does not go to a terminal.
const defaultWidth = 80

// drawingStyle returns the style that fits the output.
func drawingStyle(out io.Writer, ascii bool) schedule.Style {
	return schedule.Style{Width: terminalWidth(out), ASCII: ascii || !localeIsUTF8()}
}

func terminalWidth(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return defaultWidth
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return defaultWidth
	}
	return int(size.Col)
}

// localeIsUTF8 evaluates the first variable that is set of those that select the character set.
func localeIsUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := os.Getenv(name); value != "" {
			charset := strings.ReplaceAll(strings.ToUpper(value), "-", "")
			return strings.HasSuffix(charset, "UTF8") || strings.Contains(charset, "UTF8@")
		}
	}
	return false
}
