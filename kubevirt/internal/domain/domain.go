// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

// Domain is a domain that is being edited.
type Domain struct {
	document *etree.Document
	root     *etree.Element
}

// Parse reads a domain.
func Parse(text []byte) (*Domain, error) {
	document := etree.NewDocument()
	document.ReadSettings.PreserveCData = true
	document.ReadSettings.ValidateInput = true
	if err := document.ReadFromBytes(bytes.TrimSpace(text)); err != nil {
		return nil, fmt.Errorf("read the domain's XML: %w", err)
	}
	root := document.Root()
	if root == nil || root.FullTag() != "domain" {
		return nil, errors.New("the XML is no domain of libvirt: its first element is not <domain>")
	}
	return &Domain{document, root}, nil
}

// Bytes returns the domain's XML.
func (d *Domain) Bytes() ([]byte, error) { return d.document.WriteToBytes() }

// Processors returns the number of processors with which the machine starts. More may be added while it runs.
func (d *Domain) Processors() (int, error) {
	if all := d.root.FindElements("./vcpus/vcpu[@enabled='yes']"); len(all) > 0 {
		return len(all), nil
	}
	element := d.root.SelectElement("vcpu")
	if element == nil {
		return 1, nil
	}
	text := element.SelectAttrValue("current", strings.TrimSpace(element.Text()))
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		return 0, fmt.Errorf("the domain has %q virtual processors, which is no number above 0", text)
	}
	return count, nil
}

// child returns a child element, which it creates if needed.
func child(element *etree.Element, tag string) *etree.Element {
	if existingElement := element.SelectElement(tag); existingElement != nil {
		return existingElement
	}
	return element.CreateElement(tag)
}

// element adds a child element with attributes: names and values in turn.
func element(in *etree.Element, tag string, attributes ...string) *etree.Element {
	element := in.CreateElement(tag)
	for at := 0; at < len(attributes); at += 2 {
		element.CreateAttr(attributes[at], attributes[at+1])
	}
	return element
}

// hasAlias reports whether a device has an alias.
func hasAlias(device *etree.Element, alias string) bool {
	element := device.SelectElement("alias")
	return element != nil && element.SelectAttrValue("name", "") == alias
}
