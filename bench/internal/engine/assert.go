// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

// An assertion is an expression in the language of the library github.com/expr-lang/expr about one payload and one
// cycle:
//
//	direct.latency_ns.p99 <= 0.8 * kernel-vxlan-spin.latency_ns.p99
//	direct.gates-saturated.latency_ns.p50 <= 1.2 * direct.gates.latency_ns.p50
//
// A path has the fields of its plain run in summary.json or, after the name of another workload, of that run. The
// expression is evaluated for every payload and cycle in which everything that it names was measured. In an experiment
// a path has its cases, which have the means of their figures over repetitions:
//
//	tsn["tcp-1500"].received_bps >= 0.5 * host["tcp-1500"].received_bps

// ErrAssertion is returned when an assertion does not hold.
var ErrAssertion = errors.New("an assertion does not hold")

// errDoubtful is returned for a latency in an assertion whose clocks cannot be trusted.
var errDoubtful = errors.New("not judged")

// hyphenated are the names with a hyphen, which the language would parse as a minus, longest first.
var hyphenated = func() *regexp.Regexp {
	var names []string
	for _, name := range slices.Concat(AllPaths, AllWorkloads, slices.Sorted(maps.Keys(Namespaces.Missing))) {
		if strings.Contains(name, "-") {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
}()

// underscored replaces hyphens in names for the language.
func underscored(expression string) string {
	return hyphenated.ReplaceAllStringFunc(expression, func(name string) string { return strings.ReplaceAll(name, "-", "_") })
}

// spelled restores a name as in summary.json.
func spelled(name string) string {
	hyphens := strings.ReplaceAll(name, "_", "-")
	if hyphenated.FindString(hyphens) == hyphens {
		return hyphens
	}
	return name
}

// CheckAssertion returns an error for an invalid expression.
func CheckAssertion(expression string) error {
	if strings.TrimSpace(expression) == "" {
		return errors.New("an assertion is empty; give one such as direct.latency_ns.p99 <= 0.8 * kernel-vxlan-spin.latency_ns.p99")
	}
	tree, err := parser.Parse(underscored(expression))
	if err != nil {
		return fmt.Errorf("%q is no expression: %s", expression, firstLine(err))
	}
	if !mayBeCondition(tree.Node) {
		return fmt.Errorf("%q is a value and no condition; compare it with something, such as %s <= 30000", expression, expression)
	}
	return nil
}

// mayBeCondition reports whether an expression can be true or false: a figure alone cannot.
func mayBeCondition(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.IdentifierNode, *ast.MemberNode, *ast.IntegerNode, *ast.FloatNode, *ast.StringNode, *ast.NilNode, *ast.ArrayNode, *ast.MapNode:
		return false
	case *ast.UnaryNode:
		return node.Operator == "!" || node.Operator == "not"
	case *ast.BinaryNode:
		return !slices.Contains([]string{"+", "-", "*", "/", "%", "**", "^", ".."}, node.Operator)
	}
	return true
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// group is a payload and a cycle.
type groupKey struct {
	payloadBytes int
	cycleNs      int64
}

func (g groupKey) String() string {
	if g == ofExperiment {
		return "means over repetitions"
	}
	return fmt.Sprintf("%d B, %s µs", g.payloadBytes, results.Micros(g.cycleNs))
}

// Facts are the figures for assertions, by payload and cycle.
type Facts struct {
	order  []groupKey
	groups map[groupKey]map[string]any
}

// FactsOf returns the figures of a measurement.
func FactsOf(summary *results.Summary) (*Facts, error) {
	facts := &Facts{groups: map[groupKey]map[string]any{}}
	for _, run := range summary.Runs {
		fields, err := fieldsOf(run)
		if err != nil {
			return nil, err
		}
		facts.add(run, fields)
	}
	for _, result := range summary.Cases {
		figures := map[string]any{}
		for name, figure := range result.Figures {
			figures[name] = figure.Mean
		}
		facts.addCase(result.Path, result.Name, figures)
	}
	return facts, nil
}

// ofExperiment is the group of all cases, which have neither payload nor cycle.
var ofExperiment = groupKey{}

// addCase adds the figures of a case.
func (f *Facts) addCase(path, name string, figures any) {
	group := f.groups[ofExperiment]
	if group == nil {
		group = map[string]any{}
		f.groups[ofExperiment] = group
		f.order = append(f.order, ofExperiment)
	}
	path = strings.ReplaceAll(path, "-", "_")
	cases, _ := group[path].(map[string]any)
	if cases == nil {
		cases = map[string]any{}
		group[path] = cases
	}
	cases[name] = figures
}

// Join joins the figures of two measurements under the names a and b.
func Join(first, other *Facts) *Facts {
	joined := &Facts{groups: map[groupKey]map[string]any{}}
	for _, key := range first.order {
		if second, both := other.groups[key]; both {
			joined.order = append(joined.order, key)
			joined.groups[key] = map[string]any{"a": first.groups[key], "b": second}
			if key != ofExperiment {
				joined.groups[key]["payload_bytes"], joined.groups[key]["cycle_ns"] = key.payloadBytes, key.cycleNs
			}
		}
	}
	return joined
}

// fieldsOf returns the fields of a run by their names in summary.json.
func fieldsOf(run *results.Run) (map[string]any, error) {
	text, err := json.Marshal(run)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	delete(fields, "alternations")
	doubtFields(run, fields)
	return fields, nil
}

func (f *Facts) add(run *results.Run, fields map[string]any) {
	key := groupKey{run.PayloadBytes, run.CycleNs}
	group := f.groups[key]
	if group == nil {
		group = map[string]any{"payload_bytes": key.payloadBytes, "cycle_ns": key.cycleNs}
		f.groups[key] = group
		f.order = append(f.order, key)
	}
	path := strings.ReplaceAll(run.Path, "-", "_")
	entry, _ := group[path].(map[string]any)
	if entry == nil {
		entry = map[string]any{}
		group[path] = entry
	}
	if run.Workload == results.WorkloadPlain {
		maps.Copy(entry, fields)
	} else {
		entry[strings.ReplaceAll(run.Workload, "-", "_")] = fields
	}
}

// Assert evaluates an expression for every payload and cycle. It fails if the expression is invalid, names something
// that was not measured, or is neither true nor false.
func (f *Facts) Assert(expression string) (results.Assertion, error) {
	assertion := results.Assertion{Expression: expression, Holds: true}
	if err := CheckAssertion(expression); err != nil {
		return assertion, err
	}
	var details []string
	var missing error
	evaluated := 0
	for _, key := range f.order {
		values, err := f.values(underscored(expression), key)
		if errors.Is(err, errDoubtful) {
			assertion.Holds = false
			evaluated++
			details = append(details, fmt.Sprintf("%s: %v", key, err))
			continue
		}
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		holds, err := f.evaluate(underscored(expression), key)
		if err != nil {
			return assertion, fmt.Errorf("%q cannot be evaluated: %s", expression, firstLine(err))
		}
		evaluated++
		verdict := "holds"
		if !holds {
			assertion.Holds, verdict = false, "does not hold"
		}
		details = append(details, fmt.Sprintf("%s: %s (%s)", key, verdict, strings.Join(values, ", ")))
	}
	if evaluated == 0 && missing == nil {
		return assertion, fmt.Errorf("%q: nothing was measured", expression)
	}
	if evaluated == 0 {
		return assertion, fmt.Errorf("%q: %s", expression, firstLine(missing))
	}
	assertion.Detail = strings.Join(details, "; ")
	return assertion, nil
}

func (f *Facts) evaluate(expression string, key groupKey) (bool, error) {
	program, err := expr.Compile(expression, expr.Env(f.groups[key]), expr.AsBool())
	if err != nil {
		return false, err
	}
	answer, err := expr.Run(program, f.groups[key])
	holds, _ := answer.(bool) // as compiled
	return holds, err
}

// values returns the chains of an expression, such as direct.latency_ns.p99, with their values.
func (f *Facts) values(expression string, key groupKey) ([]string, error) {
	chains, err := chainsOf(expression)
	if err != nil {
		return nil, err
	}
	var shown []string
	for _, chain := range chains {
		value, err := f.look(chain, key)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprint(value)
		switch value := value.(type) {
		case float64:
			text = strconv.FormatFloat(value, 'f', -1, 64)
		case map[string]any:
			return nil, fmt.Errorf("%s is no number; it has %s", nameOf(chain), namesIn(value))
		}
		if len(chain) > 1 {
			shown = append(shown, nameOf(chain)+" "+text)
		}
	}
	return shown, nil
}

// look returns the value of a chain. It accepts every name of figures that are known only once they are measured.
func (f *Facts) look(chain []string, key groupKey) (any, error) {
	var current any = f.groups[key]
	for i, name := range chain {
		if _, unknown := current.(unknownYet); unknown {
			return current, nil
		}
		fields, ok := current.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s is a number and has no %s", nameOf(chain[:i]), name)
		}
		next, known := fields[name]
		if !known {
			return nil, unknownName(chain[:i], name, fields)
		}
		if next == nil {
			return nil, fmt.Errorf("%s was not measured", nameOf(chain[:i+1]))
		}
		if doubted, yes := next.(doubtful); yes {
			return nil, fmt.Errorf("%w: %s: %s", errDoubtful, nameOf(chain[:i+1]), doubted.why)
		}
		current = next
	}
	return current, nil
}

func unknownName(before []string, name string, fields map[string]any) error {
	if len(before) == 0 {
		return fmt.Errorf("%s is not measured; there are %s", spelled(name), namesIn(fields))
	}
	return fmt.Errorf("%s has no %s; it has %s", nameOf(before), spelled(name), namesIn(fields))
}

func namesIn(fields map[string]any) string {
	names := slices.Sorted(maps.Keys(fields))
	for i := range names {
		names[i] = spelled(names[i])
	}
	return strings.Join(names, ", ")
}

func nameOf(chain []string) string {
	names := make([]string, len(chain))
	for i, name := range chain {
		names[i] = spelled(name)
	}
	return strings.Join(names, ".")
}

// chainsOf returns the identifiers and member chains of an expression, without those that begin another one.
func chainsOf(expression string) ([][]string, error) {
	tree, err := parser.Parse(expression)
	if err != nil {
		return nil, err
	}
	all := &chains{}
	ast.Walk(&tree.Node, all)
	var kept chains
	for i, chain := range *all {
		begins := func(other []string) bool { return len(other) > len(chain) && slices.Equal(other[:len(chain)], chain) }
		again := slices.ContainsFunc((*all)[:i], func(other []string) bool { return slices.Equal(other, chain) })
		if !again && !slices.ContainsFunc(*all, begins) {
			kept = append(kept, chain)
		}
	}
	return kept, nil
}

// chains are the chains that a walk has met.
type chains [][]string

// Visit implements ast.Visitor.
func (c *chains) Visit(node *ast.Node) {
	if chain, ok := chainOf(*node); ok {
		*c = append(*c, chain)
	}
}

func chainOf(node ast.Node) ([]string, bool) {
	switch node := node.(type) {
	case *ast.IdentifierNode:
		return []string{node.Value}, true
	case *ast.MemberNode:
		property, ok := node.Property.(*ast.StringNode)
		before, chained := chainOf(node.Node)
		if !ok || !chained {
			return nil, false
		}
		return append(slices.Clone(before), property.Value), true
	}
	return nil, false
}
