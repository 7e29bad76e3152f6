// SPDX-License-Identifier: Apache-2.0

package preload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/program"
)

const (
	// scriptDepth is how many interpreters that are scripts the kernel follows.
	scriptDepth = 5
	// shebangBytes is how much of a script's first line the kernel reads.
	shebangBytes = 256
	elfMagic     = "\x7fELF"
)

// Incompatible is the error for a program that LD_PRELOAD does not reach.
type Incompatible struct {
	// Program is the started program: the interpreter if the application is a script.
	Program string
	// Reason completes a sentence that begins with the program.
	Reason string
}

func (e *Incompatible) Error() string { return e.Program + " " + e.Reason }

// Check returns an *Incompatible when libktsn, preloaded, would not see what the program at path sends. It
// looks at the file only: a program that starts others may still lead to one that cannot be reached. A file
// that it cannot read is no error; whether it can be started the kernel will say.
func Check(path string) error { return check(path, scriptDepth) }

func check(path string, depth int) error {
	file, err := os.Open(path)
	if err != nil {
		return nil //nolint:nilerr // executable but not readable
	}
	defer file.Close()
	head := make([]byte, shebangBytes)
	length, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	head = head[:length]
	switch {
	case bytes.HasPrefix(head, []byte("#!")) && depth > 0:
		return checkInterpreter(head[2:], depth-1)
	case bytes.HasPrefix(head, []byte(elfMagic)):
		return checkELF(path, file)
	}
	return nil // not for us to say
}

// checkInterpreter looks at the interpreter of a script, and behind env at what env starts.
func checkInterpreter(line []byte, depth int) error {
	text, _ := bufio.NewReader(bytes.NewReader(line)).ReadString('\n')
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	if err := check(words[0], depth); err != nil || filepath.Base(words[0]) != "env" {
		return err
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue
		}
		if match, err := exec.LookPath(word); err == nil {
			return check(match, depth)
		}
		return nil
	}
	return nil
}

func checkELF(path string, file *os.File) error {
	about, err := program.Read(file)
	if err != nil {
		return nil //nolint:nilerr // the kernel will refuse it, too
	}
	for _, reason := range []string{foreign(about), goSyscalls(about, file), static(about), privileged(file)} {
		if reason != "" {
			return &Incompatible{path, reason}
		}
	}
	return nil
}

// foreign compares a program's machine with this program's, for which libktsn is built too.
func foreign(about *program.Program) string {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer file.Close()
	localProgram, err := program.Read(file)
	if err != nil || about.Machine == localProgram.Machine && about.Class == localProgram.Class && about.Data == localProgram.Data {
		return ""
	}
	return fmt.Sprintf("is built for another machine (%s, %s) than libktsn.so (%s, %s)", about.Machine, about.Class,
		localProgram.Machine, localProgram.Class)
}

func static(about *program.Program) string {
	if !about.Static {
		return ""
	}
	return "is linked statically, so no library can be loaded into it"
}

// goSyscalls is about Go's own calls: C code in a Go program can be reached, if there is any that sends.
func goSyscalls(about *program.Program, file *os.File) string {
	if !about.Go || hasSendingC(about.ReadImports(file)) {
		return ""
	}
	return "is a Go program, which makes its own system calls past the C library"
}

// hasSendingC reports whether a Go program has C code that handles sockets, or needs a library that may.
func hasSendingC(imports *program.Imports) bool {
	return slices.ContainsFunc([]string{"setsockopt", "sendmsg", "sendmmsg"}, imports.Mentions) ||
		slices.ContainsFunc(imports.Libraries, func(name string) bool { return !isLibC(name) })
}

// isLibC reports whether a library is a part of the C library that Go's own packages use.
func isLibC(name string) bool {
	stem, _, _ := strings.Cut(name, ".so")
	return slices.Contains([]string{"libc", "libpthread", "libresolv", "libdl", "libm"}, stem) ||
		strings.HasPrefix(name, "ld-") || strings.HasPrefix(name, "libc.musl")
}

// privileged tells whether the kernel has the loader ignore LD_PRELOAD (AT_SECURE), because the program gets
// privileges that its caller does not have.
func privileged(file *os.File) string {
	if privilegesIgnored(file) {
		return ""
	}
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return ""
	case info.Mode()&fs.ModeSetuid != 0 && int(owner.Uid) != os.Getuid():
		return fmt.Sprintf("runs as another user (set-user-ID %d), so the loader ignores LD_PRELOAD", owner.Uid)
	case info.Mode()&fs.ModeSetgid != 0 && info.Mode()&0o010 != 0 && int(owner.Gid) != os.Getgid():
		return fmt.Sprintf("runs as another group (set-group-ID %d), so the loader ignores LD_PRELOAD", owner.Gid)
	case os.Getuid() != 0 && hasCapabilities(file):
		return "has file capabilities, so the loader ignores LD_PRELOAD"
	}
	return ""
}

// privilegesIgnored tells whether the kernel grants nothing by files: no_new_privs, or a mount with nosuid.
func privilegesIgnored(file *os.File) bool {
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && set == 1 {
		return true
	}
	var mount unix.Statfs_t
	return unix.Fstatfs(int(file.Fd()), &mount) == nil && mount.Flags&unix.ST_NOSUID != 0
}

func hasCapabilities(file *os.File) bool {
	size, err := unix.Fgetxattr(int(file.Fd()), "security.capability", nil)
	return err == nil && size > 0
}
