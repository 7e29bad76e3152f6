// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/agent/privilege"
	"github.com/kubernetsn/kubernetsn/internal/node/clock/phc"
)

// DefaultRunDir is the folder of ptp4l's socket and configuration. Who watches the clock finds them there.
const DefaultRunDir = "/run/ktsn/ptp"

const (
	socketName = "ptp4l"
	configName = "ptp4l.conf"
)

// startPatience is how long ptp4l may take until it answers.
const startPatience = 10 * time.Second

// lookEvery is how often the offset of TAI is compared.
const lookEvery = time.Second

// Runner runs linuxptp.
type Runner struct {
	Options
	// RunDir has ptp4l's socket; Proc is where this node's processes are seen.
	RunDir, Proc string
	// PTP4L and PHC2SYS are the programs.
	PTP4L, PHC2SYS string
	// Out gets their lines and those of this program.
	Out io.Writer
	// Inspect and TryClock ask for devices, Adjust is adjtimex(2).
	Inspect  func(name string) (Device, error)
	TryClock func(clock int) error
	Adjust   func(*unix.Timex) (int, error)
	// Reduce gives up all privileges but some; nil: they stay.
	Reduce func(keep ...privilege.Capability) error
	// Card opens the clock of an interface's card.
	Card func(name string) (phc.Device, error)

	mutex sync.Mutex // of Out
}

// NewRunner returns one for this node.
func NewRunner(out io.Writer) *Runner {
	return &Runner{RunDir: DefaultRunDir, Proc: "/proc", PTP4L: "/usr/sbin/ptp4l", PHC2SYS: "/usr/sbin/phc2sys", Out: out,
		Inspect: Inspect, TryClock: TryClock, Adjust: unix.Adjtimex, Card: phc.Open}
}

func (r *Runner) say(sentence string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	fmt.Fprintln(r.Out, "ktsn-ptp: "+sentence)
}

func (r *Runner) socket() string { return filepath.Join(r.RunDir, socketName) }

// Run keeps the clock until ctx ends, or until something ends that should not; the error says what. Nothing is left then.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.Check(); err != nil {
		return err
	}
	stamping, err := r.ChooseStamping(r.Inspect, r.TryClock, r.say)
	if err != nil {
		return err
	}
	lock, err := lockFolder(r.RunDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := r.refuseKeepers(r.Proc); err != nil {
		return err
	}
	// A privileged container has every capability: that is the only kind of container which sees the clocks of network cards. Among them
	// is the one to read the configurations of those that may keep the clock.
	if r.Reduce != nil {
		if err := r.Reduce(r.privileges()...); err != nil {
			return err
		}
	}
	if err := clearSocket(r.socket()); err != nil {
		return err
	}
	if err := r.clearAskers(); err != nil {
		return err
	}
	config := filepath.Join(r.RunDir, configName)
	defer func() { _ = errors.Join(removeFile(config), r.clearAskers()) }()
	if err := r.writeConfig(config, stamping); err != nil {
		return err
	}
	// The programs end with this thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return r.runPrograms(ctx, config, stamping)
}

// clearAskers removes the sockets of probes that were killed.
func (r *Runner) clearAskers() error {
	left, err := filepath.Glob(filepath.Join(r.RunDir, askerName+"*"))
	for _, path := range left {
		err = errors.Join(err, removeFile(path))
	}
	return err
}

func (r *Runner) writeConfig(path string, stamping Stamping) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the configuration of ptp4l: %w", err)
	}
	if err := errors.Join(r.Config(stamping).Write(file), file.Close()); err != nil {
		return fmt.Errorf("write the configuration of ptp4l: %w", err)
	}
	return nil
}

// phc2sysArguments : it follows the states of ptp4l's ports. The system's clock is set by a port that follows a master; it is
// the source where this node is grandmaster (the second -r). Who only serves has another one that sets it, and a phc2sys for each card's
// clock, which sets no other: phc2sys 3.1 takes one -c, and by the states of ports it may set the system's.
func (r *Runner) phc2sysArguments(stamping Stamping) [][]string {
	common := []string{"-E", r.Servo, "-n", strconv.Itoa(r.Domain), "-z", r.socket(), "-m", "-q"}
	switch {
	case r.Role == RoleGrandmaster:
		var each [][]string
		for _, name := range stamping.oneOfEachClock() {
			each = append(each, append([]string{"-s", "CLOCK_REALTIME", "-c", name, "-w"}, common...))
		}
		return each
	case r.onlyFollows():
		return [][]string{append([]string{"-a", "-r"}, common...)}
	}
	return [][]string{append([]string{"-a", "-r", "-r"}, common...)}
}

// startPhc2sys starts what keeps the clocks of cards and the system's together. Those that were started are returned in any case.
func (r *Runner) startPhc2sys(stamping Stamping) (started []*child, err error) {
	for _, arguments := range r.phc2sysArguments(stamping) {
		one, err := startChild(r.PHC2SYS, arguments, r.Out, &r.mutex)
		if err != nil {
			return started, err
		}
		started = append(started, one)
	}
	return started, nil
}

// endPhc2sys ends them all, and removes the sockets of those that could not.
func endPhc2sys(ctx context.Context, started []*child) {
	for _, one := range started {
		one.end(ctx)
		_ = removeFile(fmt.Sprintf("/var/run/phc2sys.%d", one.command.Process.Pid))
	}
}

// runPrograms starts the programs and ends them.
func (r *Runner) runPrograms(ctx context.Context, config string, stamping Stamping) error {
	ptp4l, err := startChild(r.PTP4L, []string{"-f", config, "-m", "-q", "--uds_address=" + r.socket()}, r.Out, &r.mutex)
	if err != nil {
		return err
	}
	defer func() { _ = removeFile(r.socket()) }()
	defer ptp4l.end(context.WithoutCancel(ctx))
	management, err := r.awaitAnswer(ctx, ptp4l)
	if management == nil {
		return err
	}
	defer func() { _ = management.Close() }()
	if r.UTCOffset != 0 {
		if err := r.announce(ctx, management, ptp4l); err != nil || ctx.Err() != nil {
			return err
		}
	}
	programs := []*child{ptp4l}
	if stamping.Hardware && !r.FreeRunning {
		started, err := r.startPhc2sys(stamping)
		defer endPhc2sys(context.WithoutCancel(ctx), started)
		if err != nil {
			return err
		}
		programs = append(programs, started...)
	}
	r.sayWhatRuns(stamping)
	cards := r.cardsOf(stamping)
	defer cards.close()
	return r.watch(ctx, management, cards, programs)
}

func (r *Runner) sayWhatRuns(stamping Stamping) {
	kind := "software stamps messages, and ptp4l keeps the system's clock"
	switch {
	case r.Role == RoleGrandmaster && !r.FreeRunning:
		kind = map[bool]string{true: "hardware stamps messages, phc2sys keeps the cards' clocks by the system's, and somebody else that one",
			false: "software stamps messages, and somebody else keeps the system's clock"}[stamping.Hardware]
	case r.FreeRunning:
		kind = "ptp4l measures only, and nobody sets the clock"
	case stamping.Hardware:
		kind = "hardware stamps messages, and phc2sys keeps the system's clock"
	}
	r.say(fmt.Sprintf("PTP domain %d as %s: %s", r.Domain, r.Role, kind))
}

// askEvery is the pause before ptp4l is asked again.
const askEvery = 50 * time.Millisecond

// announce has ptp4l say TAI - UTC. On a busy node it may take longer than one answer is waited for. Without error it is done, or ctx has
// ended.
func (r *Runner) announce(ctx context.Context, management *Management, ptp4l *child) error {
	ends := time.Now().Add(startPatience)
	for {
		err := management.Announce(ctx, r.UTCOffset)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ptp4l.ended:
			return errors.New(ptp4l.why())
		case <-time.After(askEvery):
		}
		if time.Now().After(ends) {
			return fmt.Errorf("have ptp4l announce TAI - UTC, for %v: %w", startPatience, err)
		}
	}
}

// awaitAnswer waits until ptp4l answers. Without management and error ctx has ended.
func (r *Runner) awaitAnswer(ctx context.Context, ptp4l *child) (*Management, error) {
	ends := time.Now().Add(startPatience)
	for {
		management, err := DialManagement(r.socket(), r.Domain)
		if err == nil {
			if err = management.Alive(ctx); err == nil {
				return management, nil
			}
			_ = management.Close()
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-ptp4l.ended:
			return nil, errors.New(ptp4l.why())
		case <-time.After(askEvery):
		}
		if time.Now().After(ends) {
			return nil, fmt.Errorf("ptp4l does not answer within %v of its start: %w", startPatience, err)
		}
	}
}

// watch looks after the programs until ctx ends or one of them does.
func (r *Runner) watch(ctx context.Context, management *Management, cards *cards, programs []*child) error {
	ended := firstToEnd(programs)
	setter := &taiSetter{adjust: r.Adjust, say: r.say}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	complaint := ""
	for {
		select {
		case <-ctx.Done():
			r.say("ends, and ends ptp4l")
			return nil
		case one := <-ended:
			return errors.New(one.why())
		case <-tick.C:
			cards.publish()
			if r.FreeRunning {
				continue
			}
			err := r.keepTAI(ctx, management, setter)
			if err != nil && err.Error() != complaint && ctx.Err() == nil {
				complaint = err.Error()
				r.say(complaint)
			}
		}
	}
}

func (r *Runner) keepTAI(ctx context.Context, management *Management, setter *taiSetter) error {
	known, err := management.UTCOffset(ctx)
	if err != nil {
		return err
	}
	return setter.look(known)
}

// Probe tells whether the ptp4l of a folder answers.
func Probe(ctx context.Context, runDir string, domain int) error {
	management, err := DialManagement(filepath.Join(runDir, socketName), domain)
	if err != nil {
		return err
	}
	defer func() { _ = management.Close() }()
	return management.Alive(ctx)
}
