// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Name is that of the tables.
const Name = "kubernetsn"

// ErrMissing reports that the kernel lacks a feature of these filters.
var ErrMissing = errors.New("the kernel has no nf_tables, by which foreign packets are kept out of tunnels; load its modules (nf_tables, Linux 5.14 or newer with NF_TABLES_INET and NF_TABLES_NETDEV)")

// Apply changes the filter to what is wanted, in one transaction, and returns what differed.
func Apply(wanted *Wanted) (changed []string, err error) {
	changed, err = apply(wanted)
	if errors.Is(err, ErrMissing) && wanted.empty() {
		return nil, nil // where there cannot be a filter, there is none to remove
	}
	return changed, err
}

// LinkChange is a change of the filter's contents for a link; nil is nothing.
type LinkChange struct{ Before, After *Link }

// ChangeLinks changes the filter's contents for links in one transaction, without reading the filter. It fails and
// changes nothing where the filter differs from what it should be.
func ChangeLinks(all []LinkChange) error {
	k, err := open()
	if err != nil {
		return explain(err)
	}
	defer k.close()
	for i := range all {
		if err := k.fill(all[i].Before.contents(), all[i].After.contents()); err != nil {
			return err
		}
	}
	if err := k.Flush(); err != nil {
		return fmt.Errorf("tell the filter of links: %w", explain(err))
	}
	return nil
}

func apply(wanted *Wanted) (changed []string, err error) {
	k, err := open()
	if err != nil {
		return nil, explain(err)
	}
	defer k.close()
	have, err := k.read()
	if err != nil {
		return nil, err
	}
	all, err := want(wanted)
	if err != nil {
		return nil, err
	}
	changed = have.differences(all)
	if len(changed) == 0 {
		return nil, nil
	}
	if err := k.write(have, all); err != nil {
		return nil, fmt.Errorf("set the filter of tunnels (nftables table %s): %w", Name, explain(err))
	}
	return changed, nil
}

// Check returns the differences from the wanted filter, one error each.
func Check(wanted *Wanted) error {
	k, err := open()
	if err != nil {
		return explain(err)
	}
	defer k.close()
	have, err := k.read()
	if err != nil {
		return err
	}
	all, err := want(wanted)
	if err != nil {
		return err
	}
	for _, difference := range have.differences(all) {
		err = errors.Join(err, fmt.Errorf("the filter of tunnels: %s", difference))
	}
	return err
}

// Counter is how many packets were dropped for a reason.
type Counter struct {
	Reason  string `json:"reason"`
	Packets uint64 `json:"packets"`
}

// Counters returns the dropped packets since the filter was made, sorted by reason; none where there is no filter.
func Counters() ([]Counter, error) {
	k, err := open()
	if err != nil {
		return nil, explain(err)
	}
	defer k.close()
	sums := map[string]uint64{}
	err = k.eachRule(func(_ *nftables.Chain, rule *nftables.Rule) {
		reason, _, _ := strings.Cut(comment(rule), " ")
		for _, e := range rule.Exprs {
			if counter, ok := e.(*expr.Counter); ok && reason != "" {
				sums[reason] += counter.Packets
			}
		}
	})
	var all []Counter
	for reason, packets := range sums {
		all = append(all, Counter{reason, packets})
	}
	slices.SortFunc(all, func(a, b Counter) int { return strings.Compare(a.Reason, b.Reason) })
	return all, err
}

func comment(r *nftables.Rule) string {
	text, _ := userdata.GetString(r.UserData, userdata.TypeComment)
	return text
}

// explain adds the likely cause to errors about unknown requests.
func explain(err error) error {
	for _, unknown := range []error{unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, unknown) {
			return fmt.Errorf("%w (%w)", ErrMissing, unknown)
		}
	}
	return err
}
