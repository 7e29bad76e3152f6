// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

const (
	// runOverhead is the approximate duration of a run in addition to its messages, settingOverhead that of starting
	// ktsnd; they only affect the estimated time left.
	runOverhead     = 200 * time.Millisecond
	settingOverhead = 500 * time.Millisecond
)

// WorkloadIdle marks the run in which ktsnd has nothing to send.
const WorkloadIdle = "idle"

// Block is a series of runs in one setting.
type Block struct {
	Setting Setting
	Runs    []Run
}

// piece is the part of a run's messages that is sent without interruption.
type piece struct {
	key      results.Key
	talkers  int
	messages []int // of each piece of a repetition
}

// Plan orders the runs. Within a repetition everything takes turns, so that temporary disturbances affect all; only
// runs that need another ktsnd are grouped, because starting ktsnd takes a while. Path is innermost, and each
// repetition begins with another path.
func Plan(profile *Profile) []Block {
	if profile.Experiment != "" {
		return planExperiment(profile)
	}
	var blocks []Block
	groups := group(profile)
	alternations := map[results.Key]int{}
	number := 0
	var current *Setting
	for repetition := 1; repetition <= profile.Repetitions; repetition++ {
		for _, group := range groups {
			block := Block{Setting: group.setting}
			if current == nil || *current != group.setting {
				block.Runs = warmUps(profile, group.pieces, repetition)
			}
			current = &group.setting
			for _, turn := range group.turns(repetition) {
				turn.Window, turn.VLAN, turn.LeadNs = profile.Window.On(turn.Path), profile.VLAN, profile.Lead.Nanoseconds()
				for _, run := range profile.watched(turn) {
					number++
					if !run.Witness { // a witness belongs to the run before it
						alternations[run.Key]++
					}
					run.Number, run.Repetition, run.Alternation = number, repetition, alternations[run.Key]
					block.Runs = append(block.Runs, run)
				}
			}
			if repetition == 1 && profile.Idle > 0 && group.setting == (Setting{Daemon: true}) {
				number++
				block.Runs = append(block.Runs, Run{Key: results.Key{Path: profile.means().Direct, Workload: WorkloadIdle},
					Number: number, Repetition: 1, Alternation: 1, IdleNs: profile.Idle.Nanoseconds()})
			}
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// settingGroup is all that needs the same ktsnd.
type settingGroup struct {
	setting Setting
	pieces  []piece
}

// group divides a profile's matrix by setting, in the order of AllWorkloads.
func group(profile *Profile) []settingGroup {
	var groups []settingGroup
	daemon := slices.Contains(profile.Paths, profile.means().Direct)
	workloads := slices.SortedStableFunc(slices.Values(profile.Workloads), func(a, b Workload) int {
		return slices.Index(AllWorkloads, a.Name) - slices.Index(AllWorkloads, b.Name)
	})
	for _, cycle := range profile.Cycles {
		for _, workload := range workloads {
			others, ovs := byUplink(piecesOf(profile, workload, cycle))
			groups = addPieces(groups, settingOf(workload, cycle, profile, daemon), others)
			groups = addPieces(groups, throughOVS(workload.Name), ovs)
		}
	}
	return groups
}

// byUplink separates the paths through Open vSwitch from the others.
func byUplink(pieces []piece) (others, ovs []piece) {
	for _, current := range pieces {
		if current.key.Path == results.PathOVS {
			ovs = append(ovs, current)
		} else {
			others = append(others, current)
		}
	}
	return others, ovs
}

func addPieces(groups []settingGroup, setting Setting, pieces []piece) []settingGroup {
	if len(pieces) == 0 {
		return groups
	}
	at := slices.IndexFunc(groups, func(g settingGroup) bool { return g.setting == setting })
	if at < 0 {
		at = len(groups)
		groups = append(groups, settingGroup{setting: setting})
	}
	groups[at].pieces = append(groups[at].pieces, pieces...)
	return groups
}

// piecesOf divides the messages of a workload into runs that are short enough.
func piecesOf(profile *Profile, workload Workload, cycle time.Duration) []piece {
	var all []piece
	talkers := 1
	if workload.Name == results.WorkloadTalkers {
		talkers = profile.Talkers
	}
	paths, payloads, messages := profile.forWorkload(workload)
	for _, payload := range payloads {
		for _, path := range paths {
			// A longer cycle has fewer messages, so that all paths take the same time.
			stretch := profile.Window.stretchOn(path)
			cycle, messages := cycle*time.Duration(stretch), max(messages/stretch, 2)
			created := piece{key: results.Key{Path: path, Workload: workload.Name, PayloadBytes: payload, CycleNs: cycle.Nanoseconds()},
				talkers: talkers}
			longest := longestRun(workload.Name, path, cycle, talkers)
			count := (messages + longest - 1) / longest
			for i := range count {
				created.messages = append(created.messages, messages*(i+1)/count-messages*i/count)
			}
			all = append(all, created)
		}
	}
	return all
}

// turns interleaves the pieces: first the first of each, then the second. The repetition determines who begins.
func (g *settingGroup) turns(repetition int) []Run {
	var runs []Run
	most := 0
	for _, piece := range g.pieces {
		most = max(most, len(piece.messages))
	}
	paths := g.paths()
	for i := range most {
		for _, same := range g.byWorkload() {
			begin := (repetition - 1) % len(paths)
			for _, path := range slices.Concat(paths[begin:], paths[:begin]) {
				for _, piece := range same {
					if piece.key.Path == path && i < len(piece.messages) {
						runs = append(runs, Run{Key: piece.key, Messages: piece.messages[i], Talkers: piece.talkers})
					}
				}
			}
		}
	}
	return runs
}

func (g *settingGroup) paths() []string {
	var paths []string
	for _, piece := range g.pieces {
		if !slices.Contains(paths, piece.key.Path) {
			paths = append(paths, piece.key.Path)
		}
	}
	return paths
}

// byWorkload groups pieces that differ only in the path, payload by payload with all workloads of each.
func (g *settingGroup) byWorkload() [][]piece {
	var all [][]piece
	for _, current := range g.pieces {
		same := func(other []piece) bool {
			key := other[0].key
			key.Path = current.key.Path
			return key == current.key
		}
		if at := slices.IndexFunc(all, same); at >= 0 {
			all[at] = append(all[at], current)
		} else {
			all = append(all, []piece{current})
		}
	}
	slices.SortStableFunc(all, func(a, b []piece) int { return a[0].key.PayloadBytes - b[0].key.PayloadBytes })
	return all
}

// warmUps returns one run for each path: address resolution, caches, page faults.
func warmUps(profile *Profile, pieces []piece, repetition int) []Run {
	if profile.WarmUp == 0 {
		return nil
	}
	var runs []Run
	seen := map[string]bool{}
	for _, piece := range pieces {
		if !seen[piece.key.Path] {
			seen[piece.key.Path] = true
			runs = append(runs, Run{Key: piece.key, Repetition: repetition, Messages: max(profile.WarmUp/piece.talkers, 2),
				Talkers: piece.talkers, Window: profile.Window.On(piece.key.Path), VLAN: profile.VLAN, LeadNs: profile.Lead.Nanoseconds()})
		}
	}
	return runs
}

// measured counts the runs that are recorded.
func measured(blocks []Block) int {
	count := 0
	for _, block := range blocks {
		for _, run := range block.Runs {
			if run.Number > 0 {
				count++
			}
		}
	}
	return count
}
