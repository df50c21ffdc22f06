; No DEADLOCK: the arrivals that line 143 (Await(cg[cta, wg], cuda_in_order, 0)) waits for come
; earlier in program order, from every home that signals its element.
; Expected: unsat.
(set-logic QF_LIA)
(declare-const await.task Int)
(declare-const await.cta Int)
(declare-const await.wg Int)
(assert (<= 0 await.task))
(assert (< await.task 1))
(assert (<= 0 await.cta))
(assert (< await.cta 2))
(assert (<= 0 await.wg))
(assert (< await.wg 2))
(assert (<= 0 0))
; arrive1: line 141: Arrive(wgmma_async) >> cg[cta, wg]
(define-fun arrive1.signals () Bool (and (<= 0 await.task) (< await.task 1) (<= 0 await.cta) (< await.cta 2) (<= 0 await.wg) (< await.wg 2)))
(define-fun starved () Bool (not arrive1.signals))
; arrive2: line 141: Arrive(wgmma_async) >> cg[cta, wg]
(declare-const arrive2.task Int)
(declare-const arrive2.cta Int)
(declare-const arrive2.wg Int)
; arrive3: line 141: Arrive(wgmma_async) >> cg[cta, wg]
(define-fun arrive3.is_enough () Bool (and (<= 0 await.task) (< await.task 1) (<= 0 arrive2.cta) (< arrive2.cta 2) (<= 0 arrive2.wg) (< arrive2.wg 2) (or (or (< arrive2.cta await.cta) (and (= arrive2.cta await.cta) (< arrive2.wg await.wg))) (and (= arrive2.cta await.cta) (= arrive2.wg await.wg))) (<= 0 0)))
(define-fun arrive2.home_is_late () Bool (and (<= 0 arrive2.task) (< arrive2.task 1) (<= 0 arrive2.cta) (< arrive2.cta 2) (<= 0 arrive2.wg) (< arrive2.wg 2) (or (or (or (< arrive2.task await.task) (and (= arrive2.task await.task) (< arrive2.cta await.cta))) (and (and (= arrive2.task await.task) (= arrive2.cta await.cta)) (< arrive2.wg await.wg))) (and (and (= arrive2.task await.task) (= arrive2.cta await.cta)) (= arrive2.wg await.wg))) (= arrive2.task await.task) (= await.cta arrive2.cta) (= await.wg arrive2.wg) (not arrive3.is_enough)))
(assert (or starved arrive2.home_is_late))
(check-sat)
