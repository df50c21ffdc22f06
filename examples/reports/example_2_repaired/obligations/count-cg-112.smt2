; The count at line 112 (Await(cg[cta, wg], cuda_in_order, 0)) is the number of earlier Arrives
; on its element of cg, within one allocation.
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
(define-fun negative () Bool (< 1 0))
; arrive1: line 111: Arrive(wgmma_async) >> cg[cta, wg]
(declare-const arrive1.task Int)
(declare-const arrive1.cta Int)
(declare-const arrive1.wg Int)
(define-fun arrive1.counts_more () Bool (and (<= 0 arrive1.task) (< arrive1.task 1) (<= 0 arrive1.cta) (< arrive1.cta 2) (<= 0 arrive1.wg) (< arrive1.wg 2) (= arrive1.task here.task) (or (or (or (< arrive1.task here.task) (and (= arrive1.task here.task) (< arrive1.cta here.cta))) (and (and (= arrive1.task here.task) (= arrive1.cta here.cta)) (< arrive1.wg here.wg))) (and (and (= arrive1.task here.task) (= arrive1.cta here.cta)) (= arrive1.wg here.wg))) (= arrive1.cta here.cta) (= arrive1.wg here.wg) (<= 1 0)))
; arrive2: line 111: Arrive(wgmma_async) >> cg[cta, wg]
(define-fun arrive2.is_previous () Bool (and (<= 0 here.task) (< here.task 1) (<= 0 here.cta) (< here.cta 2) (<= 0 here.wg) (< here.wg 2) (= 0 0)))
(define-fun unreached () Bool (and (<= 1 1) (not arrive2.is_previous)))
(assert (or negative arrive1.counts_more unreached))
(check-sat)
