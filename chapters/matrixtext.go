package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"outboxplayground/brokers"
)

// writeMatrix writes one table a bus: faults down, chapters and variants across.
func writeMatrix(out io.Writer, cells []*cell) error {
	for _, busName := range brokers.Names() {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		rows, heads, at := []string{}, []string{}, map[string]string{}
		for _, c := range cells {
			if c.Bus != busName {
				continue
			}
			head := fmt.Sprintf("%d %s", c.Chapter, c.Variant)
			if ok, _ := oneOf(head, heads); !ok {
				heads = append(heads, head)
			}
			if ok, _ := oneOf(c.Fault, rows); !ok {
				rows = append(rows, c.Fault)
			}
			at[head+"/"+c.Fault] = c.mark()
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", busName, strings.Join(heads, "\t"))
		for _, row := range rows {
			fmt.Fprintf(w, "%s", row)
			for _, head := range heads {
				fmt.Fprintf(w, "\t%s", at[head+"/"+row])
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
