// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/cli/top"
)

// Control sequences for a full-screen view.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l" // another page, no cursor
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineClear   = "\x1b[K"
	belowClear  = "\x1b[J"
)

// keyPollMs is the interval at which a wait for a key checks its context.
const keyPollMs = 100

// screen is a full-screen view on a terminal.
type screen struct {
	out      *os.File
	keyboard *os.File
	before   *unix.Termios // nil if the keyboard is not a terminal
}

// openScreen returns false when out is no terminal.
func openScreen(out io.Writer) (*screen, bool) {
	file, ok := out.(*os.File)
	if !ok {
		return nil, false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return &screen{out: file}, err == nil
}

// enter shows another screen and reads keys one by one, without echo. Keys that send signals still do, except for the key that suspends,
// which would leave the shell with this mode of the terminal.
func (s *screen) enter(keyboard *os.File) error {
	if before, err := unix.IoctlGetTermios(int(keyboard.Fd()), unix.TCGETS); err == nil {
		raw := *before
		raw.Lflag &^= unix.ICANON | unix.ECHO
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		raw.Cc[unix.VSUSP] = 0
		if err := unix.IoctlSetTermios(int(keyboard.Fd()), unix.TCSETS, &raw); err != nil {
			return fmt.Errorf("prepare the terminal: %w", err)
		}
		s.before, s.keyboard = before, keyboard
	}
	fmt.Fprint(s.out, screenEnter)
	return nil
}

// leave restores the terminal.
func (s *screen) leave() {
	fmt.Fprint(s.out, screenLeave)
	if s.before != nil {
		_ = unix.IoctlSetTermios(int(s.keyboard.Fd()), unix.TCSETS, s.before)
	}
}

// keys returns what is typed until ctx ends; closed when there is no keyboard.
func (s *screen) keys(ctx context.Context) <-chan byte {
	keys := make(chan byte)
	go func() {
		defer close(keys)
		for s.before != nil && ctx.Err() == nil {
			key, typed, err := s.readKey()
			if err != nil {
				return
			}
			if !typed {
				continue
			}
			select {
			case keys <- key:
			case <-ctx.Done():
			}
		}
	}()
	return keys
}

func (s *screen) readKey() (key byte, typed bool, err error) {
	wait := []unix.PollFd{{Fd: int32(s.keyboard.Fd()), Events: unix.POLLIN}}
	if count, err := unix.Poll(wait, keyPollMs); err != nil || count == 0 {
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
		return 0, false, err
	}
	var buffer [1]byte
	count, err := unix.Read(int(s.keyboard.Fd()), buffer[:])
	if err == nil && count == 0 {
		err = io.EOF
	}
	return buffer[0], err == nil, err
}

// show replaces the text on the screen.
func (s *screen) show(text string) {
	columns, lines := defaultWidth, 24
	if size, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
		columns, lines = int(size.Col), int(size.Row)
	}
	clipped := strings.ReplaceAll(top.Clip(text, lines, columns), "\n", lineClear+"\r\n")
	fmt.Fprint(s.out, screenHome+clipped+lineClear+belowClear)
}
