; The count at line 111 (Arrive(wgmma_async) >> cg[cta, wg]) is the number of earlier Arrives on
; its element of cg, within one allocation.
; Expected: unsat.
(set-logic QF_LIA)
(declare-const here.task Int)
(declare-const here.cta Int)
(declare-const here.wg Int)
(assert (<= 0 here.task))
(assert (< here.task 1))
(assert (<= 0 here.cta))
(assert (< here.cta 2))
(assert (<= 0 here.wg))
(assert (< here.wg 2))
(define-fun negative () Bool (< 0 0))
; arrive1: line 111: Arrive(wgmma_async) >> cg[cta, wg]
(declare-const arrive1.task Int)
(declare-const arrive1.cta Int)
(declare-const arrive1.wg Int)
(define-fun arrive1.counts_more () Bool (and (<= 0 arrive1.task) (< arrive1.task 1) (<= 0 arrive1.cta) (< arrive1.cta 2) (<= 0 arrive1.wg) (< arrive1.wg 2) (= arrive1.task here.task) (or (or (< arrive1.task here.task) (and (= arrive1.task here.task) (< arrive1.cta here.cta))) (and (and (= arrive1.task here.task) (= arrive1.cta here.cta)) (< arrive1.wg here.wg))) (= arrive1.cta here.cta) (= arrive1.wg here.wg) (<= 0 0)))
(define-fun unreached () Bool (<= 1 0))
(assert (or negative arrive1.counts_more unreached))
(check-sat)
