// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// endPatience limits the wait for a relay after SIGTERM, and again after SIGKILL.
	endPatience = time.Second
	// maxLines is the number of lines that a relay may log in linesEvery.
	maxLines   = 20
	linesEvery = 10 * time.Second
	// maxLineBytes is far more than a relay's longest message.
	maxLineBytes = 1024
)

// User is the user and group that relays run as.
type User struct{ UID, GID uint32 }

// DefaultUser is the default user and group of relays.
const DefaultUser = "65533"

// ParseUser parses UID or UID:GID. Without a group, GID is UID. Root is rejected.
func ParseUser(text string) (User, error) {
	uid, gid, both := strings.Cut(text, ":")
	if !both {
		gid = uid
	}
	user, errUser := strconv.ParseUint(uid, 10, 31)
	group, errGroup := strconv.ParseUint(gid, 10, 31)
	if errUser != nil || errGroup != nil || user == 0 || group == 0 {
		return User{}, fmt.Errorf("%q: give the number of a user, and perhaps of a group, as in 65533:65533; root is not allowed", text)
	}
	return User{uint32(user), uint32(group)}, nil
}

// Program is a relay program and its limits.
type Program struct {
	// Path is the path of the executable.
	Path string
	User User
	// Most limits its processes on the node, MostOfNamespace those for pods of one Kubernetes namespace; 0: no limit but maxRelays.
	Most, MostOfNamespace int
}

// Check returns an error if the program cannot be started.
func (p *Program) Check() error {
	file, err := os.Stat(p.Path)
	if err != nil {
		return p.explain(err)
	}
	if file.IsDir() || file.Mode()&0o001 == 0 {
		return fmt.Errorf("user %d may not execute %s; `chmod o+rx` it", p.User.UID, p.Path)
	}
	return nil
}

// process is a relay process.
type process struct {
	command *exec.Cmd
	// ended is closed when the process has ended. err is valid then.
	ended chan struct{}
	err   error
}

// run starts the program. It inherits files from descriptor firstDescriptor on, followed by its own executable: the user of
// relays may be unable to enter the executable's folders, so it is opened here and executed by its descriptor.
func (p *Program) run(thread *starter, arguments []string, files []*os.File, log *slog.Logger, changed func()) (*process, error) {
	descriptor, err := unix.Open(p.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, p.explain(err)
	}
	program := os.NewFile(uintptr(descriptor), p.Path)
	defer program.Close()
	command := &exec.Cmd{
		Path: fmt.Sprintf("/proc/self/fd/%d", firstDescriptor+len(files)), Args: append([]string{p.Path}, arguments...),
		ExtraFiles: append(slices.Clone(files), program),
	}
	command.Env, command.Dir = []string{}, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: p.User.UID, Gid: p.User.GID}}
	if os.Getuid() == int(p.User.UID) && os.Getgid() == int(p.User.GID) {
		command.SysProcAttr.Credential = nil // changing to the same user needs a capability too
	}
	reader, err := command.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Path, err)
	}
	thread.do(func() { err = command.Start() })
	if err != nil {
		return nil, p.explain(err)
	}
	started := &process{command: command, ended: make(chan struct{})}
	go func() {
		defer changed()
		defer close(started.ended)
		logLines(reader, log)
		started.err = command.Wait()
	}()
	return started, nil
}

func (p *Program) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no program %s; `make build` and the image of the agent have %s, --relay-binary says where it is", p.Path, filepath.Base(p.Path))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("start %s as user %d: %w; it takes CAP_SETUID and CAP_SETGID, and a program that this user may execute", p.Path, p.User.UID, err)
	}
	return fmt.Errorf("start %s: %w", p.Path, err)
}

// logLines logs the relay's output, at most maxLines in linesEvery.
func logLines(from io.Reader, log *slog.Logger) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, maxLineBytes), maxLineBytes)
	var since time.Time
	count := 0
	for lines.Scan() {
		if now := time.Now(); now.Sub(since) > linesEvery {
			since, count = now, 0
		}
		if count++; count <= maxLines {
			log.Info("output of the relay", "line", lines.Text())
		}
	}
	_, _ = io.Copy(io.Discard, from) // the scanner stops at a line that is too long
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// end ends the relay, by SIGKILL if SIGTERM is not enough. It returns false after twice endPatience if the relay still runs: a
// relay closes descriptors that a front end passed, and the kernel may wait for their file system without limit.
func (p *process) end() bool {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.command.Process.Signal(signal) // it may have ended
		select {
		case <-p.ended:
			return true
		case <-time.After(endPatience):
		}
	}
	return false
}
