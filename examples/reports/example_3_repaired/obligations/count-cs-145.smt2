; The count at line 145 (Arrive(cuda_in_order) >> cs) is the number of earlier Arrives on its
; element of cs, within one allocation.
; Expected: unsat.
(set-logic QF_LIA)
(declare-const here.task Int)
(assert (<= 0 here.task))
(assert (< here.task 1))
(define-fun negative () Bool (< 0 0))
; arrive1: line 145: Arrive(cuda_in_order) >> cs
(declare-const arrive1.task Int)
(define-fun arrive1.counts_more () Bool (and (<= 0 arrive1.task) (< arrive1.task 1) (= arrive1.task here.task) (< arrive1.task here.task) (<= 0 0)))
(define-fun unreached () Bool (<= 1 0))
(assert (or negative arrive1.counts_more unreached))
(check-sat)
