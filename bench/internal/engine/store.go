// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// Names in the folder of a bench.
const (
	manifestName = "bench.json"
	runsName     = "runs"
	lockName     = ".lock"
	runSuffix    = ".csv.gz"
)

// storeSchema is the version of a store's format.
const storeSchema = 1

// Manifest is the common part of all runs of a store.
type Manifest struct {
	Schema      int          `json:"schema"`
	Profile     Profile      `json:"profile"`
	Host        results.Host `json:"host"`
	Environment Environment  `json:"environment"`
	// Runs is the planned number of runs.
	Runs int `json:"runs"`
}

// NewManifest returns the manifest of a bench that has not begun.
func NewManifest(profile *Profile, host results.Host, environment Environment) *Manifest {
	return &Manifest{Schema: storeSchema, Profile: *profile, Host: host, Environment: environment, Runs: measured(Plan(profile))}
}

// Store stores the runs of a bench in a folder: bench.json, and runs/ with a file each. It is not safe for concurrent
// use.
type Store struct {
	Manifest Manifest
	dir      string
	lock     *os.File
}

// Record is one stored run.
type Record struct {
	Run Run `json:"run"`
	Outcome
}

// ErrNoBench is returned for a folder without a bench.
var ErrNoBench = errors.New("no bench was begun there")

// ReadStore opens a store for reading only.
func ReadStore(dir string) (*Store, error) {
	s := &Store{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; `ktsn bench run` makes such a folder", dir, ErrNoBench)
	}
	if err != nil {
		return nil, fmt.Errorf("read the bench: %w", err)
	}
	if err := json.Unmarshal(text, &s.Manifest); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, manifestName), err)
	}
	if s.Manifest.Schema != storeSchema {
		return nil, fmt.Errorf("%s is of schema %d, and this ktsn reads %d", filepath.Join(dir, manifestName), s.Manifest.Schema, storeSchema)
	}
	return s, nil
}

// OpenStore opens a folder to measure into: a new one, or one whose bench has the same profile and is continued. Until
// Close nobody else can open it.
func OpenStore(dir string, manifest *Manifest) (_ *Store, err error) {
	if err := refuseForeign(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, runsName), 0o755); err != nil {
		return nil, fmt.Errorf("make folder for the bench: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	success := false
	defer func() {
		if !success {
			lock.Close()
		}
	}()
	s, err := ReadStore(dir)
	switch {
	case errors.Is(err, ErrNoBench):
		s = &Store{dir: dir, Manifest: *manifest}
		if err := s.writeManifest(); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if err := s.sameAs(manifest); err != nil {
			return nil, err
		}
	}
	if err := s.removeHalves(); err != nil {
		return nil, err
	}
	s.lock = lock
	success = true
	return s, nil
}

func lockFolder(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the bench: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another bench is writing to %s; wait for its end, or give another --out", dir)
		}
		return nil, fmt.Errorf("lock the folder of the bench: %w", err)
	}
	return lock, nil
}

// refuseForeign fails for a folder that contains something else than a bench; it changes nothing there.
func refuseForeign(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, manifestName)); err == nil {
		return nil
	}
	others, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look into the folder for the bench: %w", err)
	}
	for _, other := range others {
		if name := other.Name(); name != runsName && !strings.HasPrefix(name, results.TemporaryPrefix) {
			return fmt.Errorf("%s is in use: it holds %s and no bench; give a folder that is empty or not there", dir, name)
		}
	}
	return nil
}

// sameAs fails if a bench differs from the one in the folder.
func (s *Store) sameAs(manifest *Manifest) error {
	if field := firstDifference(s.Manifest.Profile, manifest.Profile); field != "" {
		return fmt.Errorf("%s was begun with another profile: %s differs; give the same profile to go on, or another --out", s.dir, field)
	}
	there, here := &s.Manifest, manifest
	for _, same := range []struct {
		what        string
		there, here any
	}{
		{"kernel", there.Host.Kernel, here.Host.Kernel},
		{"processor", there.Host.CPUModel, here.Host.CPUModel},
		{"number of processors", there.Host.Cores, here.Host.Cores},
		{"processor of the talkers", there.Environment.SenderCPU, here.Environment.SenderCPU},
		{"processor of the listener", there.Environment.ListenerCPU, here.Environment.ListenerCPU},
	} {
		if same.there != same.here {
			return fmt.Errorf("%s was begun on another machine: the %s was %v and is %v; give another --out", s.dir, same.what,
				same.there, same.here)
		}
	}
	for name, sum := range there.Environment.Programs {
		if here.Environment.Programs[name] != sum {
			return fmt.Errorf("%s was begun with another %s (SHA-256 %.12s…, here %.12s…); give another --out", s.dir, name, sum,
				here.Environment.Programs[name])
		}
	}
	return nil
}

// firstDifference returns the first field, by name, in which two profiles differ; empty if they are equal.
func firstDifference(a, b Profile) string {
	fields := func(profile Profile) map[string]json.RawMessage {
		text, _ := json.Marshal(profile) // plain data: cannot fail
		var all map[string]json.RawMessage
		_ = json.Unmarshal(text, &all)
		return all
	}
	first, second := fields(a), fields(b)
	var names []string
	for name, text := range first {
		if string(text) != string(second[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// removeHalves removes incomplete files of a killed bench.
func (s *Store) removeHalves() error {
	for _, pattern := range []string{filepath.Join(s.dir, results.TemporaryPrefix+manifestName+"-*"),
		filepath.Join(s.dir, runsName, results.TemporaryPrefix+"*")} {
		halves, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, half := range halves {
			if err := os.Remove(half); err != nil {
				return fmt.Errorf("remove what an earlier bench had not completed: %w", err)
			}
		}
	}
	return nil
}

// Close allows others to measure into the folder.
func (s *Store) Close() error {
	return s.lock.Close()
}

// learn stores the target's description.
func (s *Store) learn(environment Environment) error {
	before, errBefore := json.Marshal(s.Manifest.Environment)
	after, errAfter := json.Marshal(environment)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return fmt.Errorf("describe the target: %w", err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	s.Manifest.Environment = environment
	return s.writeManifest()
}

func (s *Store) writeManifest() error {
	path := filepath.Join(s.dir, manifestName)
	if err := results.WriteJSON(path, &s.Manifest); err != nil {
		return fmt.Errorf("write %s: %w", path, s.explain(err))
	}
	return nil
}

// explain adds a hint to the error of a full disk.
func (s *Store) explain(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("no space is left in %s; what was measured is kept: free some and give the same command again (%w)", s.dir, err)
	}
	return err
}

func (s *Store) file(run Run) string {
	if c := run.Case; c != nil {
		name := strings.Join(slices.DeleteFunc([]string{run.Workload, run.Path, c.Name}, func(part string) bool { return part == "" }), "-")
		return filepath.Join(s.dir, runsName, fmt.Sprintf("%05d-%s-%d%s", run.Number, name, run.Repetition, runSuffix))
	}
	return filepath.Join(s.dir, runsName, fmt.Sprintf("%05d-%s-%s-%dB-%s-%d%s", run.Number, run.Workload, run.Path, run.PayloadBytes,
		run.Cycle(), run.Alternation, runSuffix))
}

// Has reports whether a run was measured.
func (s *Store) Has(run Run) bool {
	_, err := os.Stat(s.file(run))
	return err == nil
}

// Add stores a run. Its file is written completely or not at all.
func (s *Store) Add(run Run, outcome *Outcome) error {
	err := results.WriteFile(s.file(run), func(out io.Writer) error {
		packed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
		if err != nil {
			return err
		}
		return errors.Join(writeRecord(packed, &Record{run, *outcome}), packed.Close())
	})
	if err != nil {
		return fmt.Errorf("keep run %d: %w", run.Number, s.explain(err))
	}
	return nil
}

// recordOpening precedes the JSON in the first line of a run's file, which CSV readers treat as a comment.
const recordOpening = "# "

func writeRecord(out io.Writer, record *Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, recordOpening+string(text)+"\n"); err != nil {
		return err
	}
	messages := results.NewMessageWriter(out)
	return errors.Join(messages.Write(record.Run.Key, record.Run.Alternation, record.Messages), messages.Flush())
}

// Each calls take for all measured runs in the order of the plan.
func (s *Store) Each(take func(*Record) error) error {
	files, err := filepath.Glob(filepath.Join(s.dir, runsName, "*"+runSuffix))
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, file := range files {
		record, err := readRecord(file)
		if err != nil {
			return fmt.Errorf("%s is damaged; remove it, and `ktsn bench run` measures it again: %w", file, err)
		}
		if err := take(record); err != nil {
			return err
		}
	}
	return nil
}

func readRecord(path string) (*Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(bufio.NewReaderSize(file, 1<<16))
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(packed, 1<<16)
	first, err := lines.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text, hasOpening := strings.CutPrefix(first, recordOpening)
	if !hasOpening {
		return nil, fmt.Errorf("it begins with %.20q", first)
	}
	record := &Record{}
	if err := json.Unmarshal([]byte(text), record); err != nil {
		return nil, err
	}
	record.Messages, err = results.ReadMessages(lines)
	return record, err
}

// WriteMessages writes every message of every run as one CSV.
func (s *Store) WriteMessages(out io.Writer) error {
	messages := results.NewMessageWriter(out)
	err := s.Each(func(record *Record) error {
		return messages.Write(record.Run.Key, record.Run.Alternation, record.Messages)
	})
	return errors.Join(err, messages.Flush())
}
