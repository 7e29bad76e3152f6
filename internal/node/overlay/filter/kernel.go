// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// kernel is a connection to nf_tables in the network namespace of the thread that opened it.
type kernel struct{ *nftables.Conn }

func open() (*kernel, error) {
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about filters: %w", err)
	}
	return &kernel{conn}, nil
}

func (k *kernel) close() { _ = k.CloseLasting() }

// notListed says what it means that the kernel does not even list. EINVAL is the answer of one that has nfnetlink without nf_tables.
func notListed(err error) error {
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w (%w)", ErrMissing, err)
	}
	return fmt.Errorf("list the filters: %w", explain(err))
}

// ownChains lists the chains of this package's tables.
func (k *kernel) ownChains() ([]*nftables.Chain, error) {
	var all []*nftables.Chain
	for _, table := range []*nftables.Table{tableInet, tableNetdev} {
		chains, err := k.ListChainsOfTableFamily(table.Family)
		if err != nil {
			return nil, notListed(err)
		}
		for _, chain := range chains {
			if chain.Table.Name == Name {
				chain.Table = table
				all = append(all, chain)
			}
		}
	}
	return all, nil
}

// eachRule calls f for each rule of this package's tables.
func (k *kernel) eachRule(f func(*nftables.Chain, *nftables.Rule)) error {
	chains, err := k.ownChains()
	if err != nil {
		return err
	}
	for _, chain := range chains {
		rules, err := k.GetRules(chain.Table, chain)
		if err != nil {
			return fmt.Errorf("list the rules of %s: %w", chain.Name, err)
		}
		for _, rule := range rules {
			f(chain, rule)
		}
	}
	return nil
}

// read returns the filter as it is.
func (k *kernel) read() (*state, error) {
	have := newState()
	tables, err := k.ListTables()
	if err != nil {
		return nil, notListed(err)
	}
	for _, table := range tables {
		have.inet = have.inet || table.Name == Name && table.Family == tableInet.Family
		have.netdev = have.netdev || table.Name == Name && table.Family == tableNetdev.Family
	}
	if !have.inet && !have.netdev {
		return have, nil
	}
	chains, err := k.ownChains()
	if err != nil {
		return nil, err
	}
	for _, chain := range chains { // also those without rules
		have.of(chain)[chain.Name] = []string{}
	}
	err = k.eachRule(func(chain *nftables.Chain, rule *nftables.Rule) {
		at := have.of(chain)
		at[chain.Name] = append(at[chain.Name], comment(rule))
	})
	if err != nil || !have.inet {
		return have, err
	}
	return have, k.readSets(have)
}

func (s *state) of(chain *nftables.Chain) map[string][]string {
	if chain.Table.Family == tableNetdev.Family {
		return s.bridges
	}
	return s.chains
}

func (k *kernel) readSets(have *state) error {
	sets, err := k.GetSets(tableInet)
	if err != nil {
		return fmt.Errorf("list the sets of the filter: %w", err)
	}
	for _, set := range sets {
		set.Table = tableInet
		members, err := k.GetSetElements(set)
		if err != nil {
			return fmt.Errorf("list what is in set %s of the filter: %w", set.Name, err)
		}
		have.sets[set.Name] = elements{}
		for _, element := range members {
			have.sets[set.Name].add(element)
		}
	}
	return nil
}

// write writes all differences in one transaction.
func (k *kernel) write(have, wanted *state) error {
	if err := k.closeBridges(have, wanted); err != nil {
		return err
	}
	switch {
	case have.inet && !wanted.inet:
		k.DelTable(tableInet)
	case wanted.inet:
		present := have.sets
		if !have.sound(wanted) {
			if err := k.make(); err != nil {
				return err
			}
			present = nil
		}
		if err := k.fill(present, wanted.sets); err != nil {
			return err
		}
	}
	return k.Flush()
}

// setNumbers is held while sets are made: the library numbers those of all connections by one variable, which nothing guards (nftables
// v0.3.0, allocSetID).
var setNumbers sync.Mutex

// make replaces the table by one with the rules and empty sets.
func (k *kernel) make() error {
	k.AddTable(tableInet) // only what is there can be removed
	k.DelTable(tableInet)
	k.AddTable(tableInet)
	setNumbers.Lock()
	defer setNumbers.Unlock()
	for i := range forms {
		if err := k.AddSet(forms[i].set(tableInet), nil); err != nil {
			return err
		}
	}
	for _, chain := range chains() {
		added := &nftables.Chain{Name: chain.name, Table: tableInet}
		if chain.hook != nil {
			added.Type, added.Hooknum, added.Priority = nftables.ChainTypeFilter, chain.hook, nftables.ChainPriorityRaw
		}
		if err := k.addRules(k.AddChain(added), chain.rules); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernel) addRules(to *nftables.Chain, rules []rule) error {
	comments, err := commentsOf(rules, to.Table.Family)
	if err != nil {
		return err
	}
	for i := range rules {
		k.AddRule(&nftables.Rule{
			Table: to.Table, Chain: to, Exprs: rules[i].exprs,
			UserData: userdata.AppendString(nil, userdata.TypeComment, comments[i]),
		})
	}
	return nil
}

// maxElements is the number of elements that fit into one message at any length.
const maxElements = 256

// fill updates the sets. It removes elements first, because ranges must not overlap.
func (k *kernel) fill(have, wanted map[string]elements) error {
	for i := range forms {
		set := forms[i].set(tableInet)
		for part := range slices.Chunk(have[set.Name].minus(wanted[set.Name]), maxElements) {
			if err := k.SetDeleteElements(set, part); err != nil {
				return err
			}
		}
		for part := range slices.Chunk(wanted[set.Name].minus(have[set.Name]), maxElements) {
			if err := k.SetAddElements(set, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeBridges adds a chain for each bridge that is to be closed, and removes the chains of others.
func (k *kernel) closeBridges(have, wanted *state) error {
	if have.netdev && !wanted.netdev {
		k.DelTable(tableNetdev)
	}
	if !wanted.netdev {
		return nil
	}
	k.AddTable(tableNetdev)
	for bridge := range have.bridges {
		if !slices.Equal(have.bridges[bridge], wanted.bridges[bridge]) {
			k.DelChain(&nftables.Chain{Name: bridge, Table: tableNetdev})
		}
	}
	for bridge := range wanted.bridges {
		if slices.Equal(have.bridges[bridge], wanted.bridges[bridge]) {
			continue
		}
		added := k.AddChain(&nftables.Chain{
			Name: bridge, Table: tableNetdev, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookIngress, Priority: nftables.ChainPriorityRaw, Device: bridge,
		})
		if err := k.addRules(added, closing()); err != nil {
			return err
		}
	}
	return nil
}
