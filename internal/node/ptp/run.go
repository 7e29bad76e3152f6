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

// DefaultRunDir is the default folder of ptp4l's socket and configuration, where ktsn-agent reads them.
const DefaultRunDir = "/run/ktsn/ptp"

const (
	socketName = "ptp4l"
	configName = "ptp4l.conf"
)

// startPatience limits the wait for ptp4l's first answer.
const startPatience = 10 * time.Second

// compareEvery is the period of comparisons of the TAI offset.
const compareEvery = time.Second

// Runner runs linuxptp.
type Runner struct {
	Options
	// RunDir is the folder of ptp4l's socket; Proc is this node's /proc.
	RunDir, Proc string
	// PTP4L and PHC2SYS are the programs.
	PTP4L, PHC2SYS string
	// Out gets their output and the messages of this program.
	Out io.Writer
	// Inspect and TryClock examine devices, Adjust is adjtimex(2).
	Inspect  func(name string) (Device, error)
	TryClock func(clock int) error
	Adjust   func(*unix.Timex) (int, error)
	// Reduce drops all other privileges; nil: they stay.
	Reduce func(keep ...privilege.Capability) error
	// Card opens the clock of an interface's card.
	Card func(name string) (phc.Device, error)

	mutex sync.Mutex // of Out
}

// NewRunner returns a runner for this node.
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

// Run runs the programs until ctx ends. It fails when one of them ends by itself. It leaves nothing behind.
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
	// Only a privileged container, which has every capability, sees the clocks of network cards. refuseKeepers needed the capability to
	// read the configurations of other processes.
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

// phc2sysArguments returns the arguments of each phc2sys. It follows the states of ptp4l's ports (-a): it sets the system's clock from
// a port that follows a master, and uses it as the source when this node is grandmaster (the second -r). A node that only serves has
// another program that sets its clock, and one phc2sys for each card's clock, which sets no other: phc2sys 3.1 accepts a single -c, and
// with -a it could set the system's clock.
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

// startPhc2sys starts the programs that synchronise the clocks of cards and the system. With an error it returns those that it started.
func (r *Runner) startPhc2sys(stamping Stamping) (started []*child, err error) {
	for _, arguments := range r.phc2sysArguments(stamping) {
		program, err := startChild(r.PHC2SYS, arguments, r.Out, &r.mutex)
		if err != nil {
			return started, err
		}
		started = append(started, program)
	}
	return started, nil
}

// endPhc2sys ends the programs and removes the sockets of those that were killed.
func endPhc2sys(ctx context.Context, started []*child) {
	for _, program := range started {
		program.end(ctx)
		_ = removeFile(fmt.Sprintf("/var/run/phc2sys.%d", program.command.Process.Pid))
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
	r.logMode(stamping)
	cards := r.cardsOf(stamping)
	defer cards.close()
	return r.watch(ctx, management, cards, programs)
}

func (r *Runner) logMode(stamping Stamping) {
	kind := "software stamps messages, and ptp4l keeps the system's clock"
	switch {
	case r.Role == RoleGrandmaster && !r.FreeRunning:
		kind = map[bool]string{true: "hardware stamps messages, phc2sys keeps the cards' clocks by the system's, and another program keeps that one",
			false: "software stamps messages, and another program keeps the system's clock"}[stamping.Hardware]
	case r.FreeRunning:
		kind = "ptp4l measures only, and no program sets the clock"
	case stamping.Hardware:
		kind = "hardware stamps messages, and phc2sys keeps the system's clock"
	}
	r.say(fmt.Sprintf("PTP domain %d as %s: %s", r.Domain, r.Role, kind))
}

// askEvery is the pause before ptp4l is asked again.
const askEvery = 50 * time.Millisecond

// announce makes ptp4l announce TAI - UTC. It repeats the request, because an answer can be late on a busy node. It returns nil when
// ctx ends.
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

// awaitAnswer waits until ptp4l answers. It returns nil and no error when ctx ends.
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

// watch sets the TAI offset and publishes the cards' clocks until ctx or one of the programs ends.
func (r *Runner) watch(ctx context.Context, management *Management, cards *cards, programs []*child) error {
	ended := firstToEnd(programs)
	setter := &taiSetter{adjust: r.Adjust, say: r.say}
	tick := time.NewTicker(compareEvery)
	defer tick.Stop()
	complaint := ""
	for {
		select {
		case <-ctx.Done():
			r.say("ends, and ends ptp4l")
			return nil
		case program := <-ended:
			return errors.New(program.why())
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
	return setter.update(known)
}

// Probe fails if the ptp4l of a folder does not answer.
func Probe(ctx context.Context, runDir string, domain int) error {
	management, err := DialManagement(filepath.Join(runDir, socketName), domain)
	if err != nil {
		return err
	}
	defer func() { _ = management.Close() }()
	return management.Alive(ctx)
}
